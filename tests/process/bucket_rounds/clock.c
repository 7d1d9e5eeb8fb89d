/* Shows a process another time of day: CLOCK_OFFSET_S seconds are added to it. Clocks that only measure how
 * long something takes are left alone, as a wrong clock of a machine leaves them. It is loaded with LD_PRELOAD. */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t offset(void) {
    static time_t known;
    static int is_known;
    if (!is_known) {
        const char *text = getenv("CLOCK_OFFSET_S");
        known = text == NULL ? 0 : (time_t)strtol(text, NULL, 10);
        is_known = 1;
    }
    return known;
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    if (syscall(SYS_clock_gettime, clock, found) != 0)
        return -1;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        found->tv_sec += offset();
    return 0;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found != NULL)
        *found = now.tv_sec;
    return now.tv_sec;
}
