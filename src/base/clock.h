/* Clocks. Monotonic for deadlines; the same with the time in which the machine slept for what a person granted; real time only for what a person reads. */
#ifndef BROME_BASE_CLOCK_H
#define BROME_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_mono_us(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
static inline int64_t clock_mono_ms(void) { return clock_mono_us() / 1000; }
static inline int64_t clock_boot_ms(void)
{
        struct timespec t;
        clock_gettime(CLOCK_BOOTTIME, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static inline int64_t clock_real_us(void)
{
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

#endif
