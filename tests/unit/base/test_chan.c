/* Channel: messages with descriptors, and everything a taken-over peer might send instead. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/chan.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void test_message_with_descriptors(void **state)
{
        int s[2], memfd = fd_memfd("x", "hello", 5), got;
        struct chan_msg m;
        struct err err = ERR_INIT;
        struct buf b;
        (void)state;
        assert_int_equal(chan_pair(s), 0);
        assert_int_equal(chan_recv(s[1], &m, &err), 0);
        assert_int_equal(chan_send(s[0], json_pack("{s:s, s:i, s:b}", "op", "test", "n", 7, "yes", 1), &memfd, 1), 0);
        assert_int_equal(chan_wait(s[1], 1000, &m, &err), 1);
        assert_string_equal(m.op, "test");
        assert_int_equal(chan_int(&m, "n", 0), 7);
        assert_int_equal(chan_int(&m, "yes", -1), -1); /* wrong type: the default */
        assert_true(chan_bool(&m, "yes", false));
        assert_string_equal(chan_str(&m, "none", "otherwise"), "otherwise");
        got = chan_take_fd(&m, 0);
        assert_true(got >= 0);
        assert_true(fcntl(got, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(chan_take_fd(&m, 1), -1);
        chan_msg_fini(&m);
        buf_init(&b, 0);
        assert_int_equal(fd_read_all(got, &b, 100, &err), 0);
        assert_true(slice_is(buf_slice(&b), "hello"));
        buf_fini(&b);
        close(got);
        close(memfd);
        close(s[0]);
        assert_int_equal(chan_recv(s[1], &m, &err), -1);
        assert_string_equal(err.text, "closed");
        close(s[1]);
}

static int lowest_free_fd(void)
{
        int fd = dup(0);
        close(fd);
        return fd;
}

static void test_hostile_messages_end_the_channel_and_leak_nothing(void **state)
{
        static const char *const bad[] = { "{", "[]", "{}", "{\"op\":1}", "{\"op\":\"a\",\"op\":\"b\"}", "\"op\"", "{\"op\":\"a\"} x", "\xff\xfe" };
        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]) + 1; i++) {
                char *big = calloc(1, CHAN_MESSAGE_BYTES + 2);
                const char *text = i < sizeof(bad) / sizeof(bad[0]) ? bad[i] : memset(big, ' ', CHAN_MESSAGE_BYTES + 1);
                int s[2], before, extra[2] = { 0, 1 };
                union { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(extra))]; } control = { 0 };
                struct iovec iov = { (void *)text, strlen(text) };
                struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes) };
                struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
                struct chan_msg m;
                struct err err = ERR_INIT;
                assert_int_equal(chan_pair(s), 0);
                before = lowest_free_fd();
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(extra));
                memcpy(CMSG_DATA(c), extra, sizeof(extra));
                assert_true(sendmsg(s[0], &mh, 0) >= 0);
                assert_int_equal(chan_recv(s[1], &m, &err), -1);
                assert_non_null(strstr(err.text, "channel"));
                assert_int_equal(lowest_free_fd(), before);
                close(s[0]);
                close(s[1]);
                free(big);
        }
}

static void test_too_long_is_not_sent(void **state)
{
        char *text = calloc(1, CHAN_MESSAGE_BYTES + 1);
        int s[2];
        (void)state;
        assert_int_equal(chan_pair(s), 0);
        memset(text, 'a', CHAN_MESSAGE_BYTES);
        assert_int_equal(chan_send(s[0], json_pack("{s:s, s:s}", "op", "x", "t", text), NULL, 0), -1);
        assert_int_equal(chan_send(s[0], NULL, NULL, 0), -1);
        close(s[0]);
        close(s[1]);
        free(text);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_message_with_descriptors), cmocka_unit_test(test_hostile_messages_end_the_channel_and_leak_nothing),
                                            cmocka_unit_test(test_too_long_is_not_sent) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
