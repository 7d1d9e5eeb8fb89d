"""CRC32C (Castagnoli): by the processor where it can, by tables of eight everywhere else.

The processor takes three cycles for eight bytes, and one more every cycle: long data is read in three places
at once, and the results are joined by tables of what so many zero bytes make of a checksum.

Whoever uses `hr_crc` calls `hr_crc_prepare` once before; it says whether the processor does it.
"""

from libc.stdint cimport uint32_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static uint32_t hr_crc_table[8][256];

    static uint32_t hr_crc_portable(uint32_t crc, const uint8_t *p, size_t n) {
        while (n >= 8) {
            uint32_t a = crc ^ (p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
            crc = hr_crc_table[7][a & 255] ^ hr_crc_table[6][(a >> 8) & 255]
                ^ hr_crc_table[5][(a >> 16) & 255]
                ^ hr_crc_table[4][a >> 24] ^ hr_crc_table[3][p[4]] ^ hr_crc_table[2][p[5]]
                ^ hr_crc_table[1][p[6]] ^ hr_crc_table[0][p[7]];
            p += 8; n -= 8;
        }
        while (n--) crc = hr_crc_table[0][(crc ^ *p++) & 255] ^ (crc >> 8);
        return crc;
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    /* Clang has the instruction under a name of its own, which older compilers do not know. */
    #if defined(__clang__) && __clang_major__ >= 14
    #define HR_CRC_TARGET __attribute__((target("sse4.2,crc32")))
    #else
    #define HR_CRC_TARGET __attribute__((target("sse4.2")))
    #endif

    enum { HR_CRC_LONG = 256, HR_CRC_SHORT = 64 };
    static uint32_t hr_crc_long[4][256], hr_crc_short[4][256];

    HR_CRC_TARGET
    static void hr_crc_prepare_over(uint32_t over[4][256], size_t n) {
        for (int k = 0; k < 4; k++)
            for (uint64_t v = 0; v < 256; v++) {
                uint64_t c = v << 8 * k;
                for (size_t i = 0; i < n; i += 8) c = __builtin_ia32_crc32di(c, 0);
                over[k][v] = (uint32_t)c;
            }
    }

    /* What n zero bytes, those of the table, make of a checksum. */
    static inline uint32_t hr_crc_over(const uint32_t over[4][256], uint32_t c) {
        return over[0][c & 255] ^ over[1][(c >> 8) & 255] ^ over[2][(c >> 16) & 255] ^ over[3][c >> 24];
    }

    HR_CRC_TARGET
    static inline uint32_t hr_crc_three(uint32_t crc, const uint8_t *p, size_t n, const uint32_t over[4][256]) {
        uint64_t a = crc, b = 0, c = 0, u, v, w;
        for (size_t i = 0; i < n; i += 8) {
            memcpy(&u, p + i, 8); memcpy(&v, p + n + i, 8); memcpy(&w, p + 2 * n + i, 8);
            a = __builtin_ia32_crc32di(a, u);
            b = __builtin_ia32_crc32di(b, v);
            c = __builtin_ia32_crc32di(c, w);
        }
        return hr_crc_over(over, hr_crc_over(over, (uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
    }

    HR_CRC_TARGET
    static uint32_t hr_crc_sse42(uint32_t crc, const uint8_t *p, size_t n) {
        uint64_t c, w;
        for (; n >= 3 * HR_CRC_LONG; p += 3 * HR_CRC_LONG, n -= 3 * HR_CRC_LONG)
            crc = hr_crc_three(crc, p, HR_CRC_LONG, hr_crc_long);
        for (; n >= 3 * HR_CRC_SHORT; p += 3 * HR_CRC_SHORT, n -= 3 * HR_CRC_SHORT)
            crc = hr_crc_three(crc, p, HR_CRC_SHORT, hr_crc_short);
        c = crc;
        while (n >= 8) { memcpy(&w, p, 8); c = __builtin_ia32_crc32di(c, w); p += 8; n -= 8; }
        crc = (uint32_t)c;
        while (n--) crc = __builtin_ia32_crc32qi(crc, *p++);
        return crc;
    }
    #endif

    static uint32_t (*hr_crc_run)(uint32_t, const uint8_t *, size_t) = hr_crc_portable;

    static int hr_crc_prepare(void) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c & 1 ? 0x82F63B78u ^ (c >> 1) : c >> 1;
            hr_crc_table[0][i] = c;
        }
        for (int t = 1; t < 8; t++)
            for (int i = 0; i < 256; i++)
                hr_crc_table[t][i] = hr_crc_table[0][hr_crc_table[t - 1][i] & 255]
                    ^ (hr_crc_table[t - 1][i] >> 8);
    #if defined(__x86_64__) && defined(__GNUC__)
        if (__builtin_cpu_supports("sse4.2")) {
            hr_crc_prepare_over(hr_crc_long, HR_CRC_LONG);
            hr_crc_prepare_over(hr_crc_short, HR_CRC_SHORT);
            hr_crc_run = hr_crc_sse42;
            return 1;
        }
    #endif
        return 0;
    }

    /* CRC32C of data, going on from an earlier result (0 or a salt at the start). */
    static inline uint32_t hr_crc(uint32_t crc, const void *p, size_t n) {
        return ~hr_crc_run(~crc, (const uint8_t *)p, n);
    }
    static inline uint32_t hr_crc_by_table(uint32_t crc, const void *p, size_t n) {
        return ~hr_crc_portable(~crc, (const uint8_t *)p, n);
    }
    """
    int hr_crc_prepare() noexcept nogil
    uint32_t hr_crc(uint32_t crc, const void *p, size_t n) noexcept nogil
    uint32_t hr_crc_by_table(uint32_t crc, const void *p, size_t n) noexcept nogil
