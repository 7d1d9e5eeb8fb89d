/* Takes what gcc's and clang's -fsanitize-coverage=trace-pc,trace-cmp report from the compiled engine, for a
   libFuzzer that sits in another library (atheris): every place that is reached counts in one of the counters,
   chosen by its address; comparisons are handed on. Built and wired up by instrumented.py. */

#include <stdint.h>

#define COUNTERS 65536

uint8_t hr_counters[COUNTERS];

/* libFuzzer wants an address for each counter; these are made up. */
struct { uintptr_t address, flags; } hr_places[COUNTERS];

static void ignore(uint64_t a, uint64_t b) { (void)a; (void)b; }

/* libFuzzer's functions, set by instrumented.py. They note who called, so the calls below must be jumps (-O2). */
void (*hr_cmp1)(uint64_t, uint64_t) = ignore, (*hr_const_cmp1)(uint64_t, uint64_t) = ignore;
void (*hr_cmp2)(uint64_t, uint64_t) = ignore, (*hr_const_cmp2)(uint64_t, uint64_t) = ignore;
void (*hr_cmp4)(uint64_t, uint64_t) = ignore, (*hr_const_cmp4)(uint64_t, uint64_t) = ignore;
void (*hr_cmp8)(uint64_t, uint64_t) = ignore, (*hr_const_cmp8)(uint64_t, uint64_t) = ignore;
void (*hr_switch)(uint64_t, uint64_t) = ignore;

void __sanitizer_cov_trace_pc(void) {
    uint64_t pc = (uint64_t)(uintptr_t)__builtin_return_address(0);
    uint8_t *counter = &hr_counters[(pc * 0x9E3779B97F4A7C15ull) >> 48];
    if (*counter != 255) ++*counter;
}

void __sanitizer_cov_trace_cmp1(uint8_t a, uint8_t b) { hr_cmp1(a, b); }
void __sanitizer_cov_trace_cmp2(uint16_t a, uint16_t b) { hr_cmp2(a, b); }
void __sanitizer_cov_trace_cmp4(uint32_t a, uint32_t b) { hr_cmp4(a, b); }
void __sanitizer_cov_trace_cmp8(uint64_t a, uint64_t b) { hr_cmp8(a, b); }
void __sanitizer_cov_trace_const_cmp1(uint8_t a, uint8_t b) { hr_const_cmp1(a, b); }
void __sanitizer_cov_trace_const_cmp2(uint16_t a, uint16_t b) { hr_const_cmp2(a, b); }
void __sanitizer_cov_trace_const_cmp4(uint32_t a, uint32_t b) { hr_const_cmp4(a, b); }
void __sanitizer_cov_trace_const_cmp8(uint64_t a, uint64_t b) { hr_const_cmp8(a, b); }
void __sanitizer_cov_trace_switch(uint64_t value, uint64_t *cases) { hr_switch(value, (uint64_t)(uintptr_t)cases); }
void __sanitizer_cov_trace_cmpf(float a, float b) { (void)a; (void)b; }
void __sanitizer_cov_trace_cmpd(double a, double b) { (void)a; (void)b; }
