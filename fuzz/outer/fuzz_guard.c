/* Address guard: no IPv6 spelling of an IPv4 address is judged more mildly than the address itself, and no claim but a pin or a
 * literal lets a forbidden one pass. */
#include "outer/guard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const uint8_t at[] = { 12, 2 }; /* mapped, NAT64, compatible: last bytes; 6to4: after the prefix */
        static const uint8_t prefix[][16] = { { 0, 0x64, 0xff, 0x9b }, { [10] = 0xff, [11] = 0xff }, { [8] = 0xff, [9] = 0xff }, { 0x20, 0x02 } };
        struct addr a, v4;
        const char *what;

        if (size < 17)
                return 0;
        memcpy(a.b, data, 16);
        struct guard_claim claim = { .private_ok = data[16] & 1 };
        enum guard_class class = guard_judge(&a).class;
        if ((class >= GUARD_LOCAL || (class == GUARD_PRIVATE && !claim.private_ok)) != (guard_check(&a, &claim, &what) != REASON_NONE))
                __builtin_trap();
        v4 = addr_v4((uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3]);
        for (size_t i = 0; i < sizeof(prefix) / sizeof(prefix[0]); i++) {
                memcpy(a.b, prefix[i], 16);
                memcpy(a.b + at[i == 3], v4.b + 12, 4);
                if (guard_judge(&a).class < guard_judge(&v4).class)
                        __builtin_trap();
        }
        return 0;
}
