/* sessions.c - the cost of connections themselves.
 *
 *   connects  connect, INFO, CONNECT, PING, PONG, close; `connections` of them
 *             at any moment, until the time or the count is reached; a latency
 *             runs from the socket's creation to the PONG
 *   idle      open `count` connections and keep them; the memory of the server
 *             before the first and after the last, once things have settled
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum state { CONNECTING, WAIT_INFO, WAIT_PONG, OPEN };

struct session {
    int fd;
    enum state state;
    size_t len;
    int64_t begun_ns;
    char line[4096]; /* the line being received */
};

static struct {
    const struct options *o;
    int epfd;
    uint64_t begun, opened;
    struct latencies latencies;
} s;

static void send_text(const struct session *e, const char *text)
{
    size_t n = strlen(text);
    if (send(e->fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
        fail("send: %s", strerror(errno));
}

/* Closed connections hold their source port for a minute: spread them. */
static void spread_source(int fd)
{
    int one = 1;
    struct sockaddr_in from = {.sin_family = AF_INET};
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)(s.begun % 16));
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&from, sizeof from))
        fail("bind: %s", strerror(errno));
}

static void begin(struct session *e)
{
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = e};
    e->fd = tcp_socket(SOCK_NONBLOCK | SOCK_CLOEXEC);
    e->state = CONNECTING;
    e->len = 0;
    e->begun_ns = now_ns();
    spread_source(e->fd);
    if (tcp_connect(e->fd, s.o->port) && errno != EINPROGRESS)
        fail("connect: %s%s", strerror(errno),
             errno == EADDRNOTAVAIL ? " (no free source port; wait a minute)" : "");
    if (epoll_ctl(s.epfd, EPOLL_CTL_ADD, e->fd, &event))
        fail("epoll_ctl: %s", strerror(errno));
    s.begun++;
}

static void connected(struct session *e)
{
    int error = 0;
    socklen_t size = sizeof error;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = e};
    getsockopt(e->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error)
        fail("connect: %s", strerror(error));
    e->state = WAIT_INFO;
    epoll_ctl(s.epfd, EPOLL_CTL_MOD, e->fd, &event);
}

/* Returns true when this line completed the handshake. */
static bool take_line(struct session *e)
{
    if (e->state == WAIT_INFO && !memcmp(e->line, "INFO {", 6)) {
        send_text(e, CONNECT_LINE);
        e->state = WAIT_PONG;
    } else if (e->state == WAIT_PONG && !memcmp(e->line, "PONG\r\n", 6)) {
        e->state = OPEN;
        return true;
    } else if (e->state >= WAIT_PONG && !memcmp(e->line, "PING\r\n", 6)) {
        send_text(e, "PONG\r\n");
    } else if (e->state < WAIT_PONG || memcmp(e->line, "INFO {", 6)) {
        fail("unexpected line %.*s", (int)(e->len < 100 ? e->len : 100), e->line);
    }
    return false;
}

static bool take_bytes(struct session *e)
{
    bool completed = false;
    ssize_t got = recv(e->fd, e->line + e->len, sizeof e->line - e->len, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return false;
    if (got <= 0)
        fail("the server closed connection %llu (%s)", (unsigned long long)s.opened,
             got ? strerror(errno) : "end of stream");
    e->len += (size_t)got;
    for (;;) {
        char *newline = memchr(e->line, '\n', e->len);
        if (!newline)
            break;
        size_t n = (size_t)(newline + 1 - e->line);
        if (n >= 6)
            completed |= take_line(e);
        e->len -= n;
        memmove(e->line, e->line + n, e->len);
    }
    if (e->len == sizeof e->line)
        fail("a line of more than %zu bytes", sizeof e->line);
    return completed;
}

/* Handles what is ready; returns one session that completed its handshake. */
static void step(int timeout_ms, void (*on_open)(struct session *))
{
    struct epoll_event events[256];
    int n = epoll_wait(s.epfd, events, 256, timeout_ms);
    for (int i = 0; i < n; i++) {
        struct session *e = events[i].data.ptr;
        if (e->state == CONNECTING)
            connected(e);
        else if (take_bytes(e)) {
            s.opened++;
            on_open(e);
        }
    }
    deadline_check(now_ns());
}

/* ---- connects ----------------------------------------------------------- */

static int64_t stop_ns;

static void replace(struct session *e)
{
    latencies_add(&s.latencies, now_ns() - e->begun_ns);
    close(e->fd);
    if (s.begun < s.o->count && now_ns() < stop_ns)
        begin(e);
}

static void connects_phase(struct session *all, double seconds, struct usage *from, struct usage *to)
{
    s.begun = s.opened = 0;
    latencies_clear(&s.latencies);
    *from = usage_now(s.o->pid);
    stop_ns = from->wall_ns + (int64_t)(seconds * 1e9);
    for (int i = 0; i < s.o->connections; i++)
        begin(&all[i]);
    while (s.opened < s.begun)
        step(100, replace);
    *to = usage_now(s.o->pid);
}

void run_connects(const struct options *o)
{
    struct usage from, to;
    struct session *all = must_alloc(sizeof *all * (size_t)o->connections);
    s.o = o;
    s.epfd = epoll_create1(EPOLL_CLOEXEC);
    if (o->warmup > 0)
        connects_phase(all, o->warmup, &from, &to);
    connects_phase(all, o->seconds, &from, &to);
    printf("{\"connects\": %llu, ", (unsigned long long)s.opened);
    latencies_print(&s.latencies);
    print_usage(&from, &to);
    printf("}\n");
}

/* ---- idle --------------------------------------------------------------- */

static struct session *idle;

static void open_next(struct session *e)
{
    (void)e;
    if (s.begun < s.o->count)
        begin(&idle[s.begun]);
}

void run_idle(const struct options *o)
{
    struct usage from, to;
    long rss_before, pss_before, rss_after, pss_after;
    s.o = o;
    s.epfd = epoll_create1(EPOLL_CLOEXEC);
    if (!o->pid)
        fail("idle: needs --pid");
    idle = must_alloc(sizeof *idle * o->count);
    memory_of(o->pid, &rss_before, &pss_before);
    from = usage_now(o->pid);
    while (s.begun < o->count && s.begun < (uint64_t)o->connections)
        begin(&idle[s.begun]);
    while (s.opened < o->count)
        step(100, open_next);
    to = usage_now(o->pid);
    for (int64_t end = now_ns() + (int64_t)(o->settle * 1e9); now_ns() < end;)
        step(50, open_next);
    memory_of(o->pid, &rss_after, &pss_after);
    printf("{\"connects\": %llu, \"rss_before_kb\": %ld, \"pss_before_kb\": %ld, \"rss_after_kb\": %ld, "
           "\"pss_after_kb\": %ld, ",
           (unsigned long long)s.opened, rss_before, pss_before, rss_after, pss_after);
    print_usage(&from, &to);
    printf("}\n");
}
