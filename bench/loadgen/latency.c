/* latency.c - how long things took, as percentiles.
 *
 * A logarithmic histogram of nanoseconds: 128 steps per power of two, so a
 * percentile is within 1 % of the true one.
 */
#include "loadgen.h"

#include <stdio.h>
#include <string.h>

static int bucket_of(uint64_t ns)
{
    if (ns < LATENCY_STEPS)
        return (int)ns;
    int shift = 63 - __builtin_clzll(ns) - LATENCY_STEP_BITS;
    return (shift + 1) * LATENCY_STEPS + (int)((ns >> shift) - LATENCY_STEPS);
}

static double bucket_ns(int bucket)
{
    if (bucket < LATENCY_STEPS)
        return bucket;
    int shift = bucket / LATENCY_STEPS - 1;
    uint64_t least = (uint64_t)(bucket % LATENCY_STEPS + LATENCY_STEPS) << shift;
    return (double)least + (double)(1ull << shift) / 2;
}

static double percentile_us(const struct latencies *l, double share)
{
    uint64_t want = (uint64_t)(share * (double)l->measured), seen = 0;
    for (int i = 0; i < LATENCY_BUCKETS; i++) {
        seen += l->buckets[i];
        if (seen > want)
            return bucket_ns(i) / 1000;
    }
    return 0;
}

void latencies_clear(struct latencies *l) { memset(l, 0, sizeof *l); }

void latencies_add(struct latencies *l, int64_t ns)
{
    l->buckets[bucket_of(ns > 0 ? (uint64_t)ns : 0)]++;
    l->measured++;
}

void latencies_print(const struct latencies *l)
{
    printf("\"p50_us\": %.2f, \"p90_us\": %.2f, \"p99_us\": %.2f, \"p999_us\": %.2f, ",
           percentile_us(l, 0.50), percentile_us(l, 0.90), percentile_us(l, 0.99), percentile_us(l, 0.999));
}
