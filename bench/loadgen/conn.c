/* conn.c - one client connection, and what is measured beside it.
 *
 * Reading counts frames of one fixed shape, or hands over messages of any size,
 * and answers control lines.  With a shape, the head of the first frame and of
 * the last frame of each read is compared with the expected one, and the payload
 * of the first frame that arrives whole.  Anything unexpected (an -ERR, a foreign
 * frame, a closed socket) ends the program: a wrong number is never printed.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

const char CONNECT_LINE[] =
    "CONNECT {\"verbose\":false,\"pedantic\":false,\"tls_required\":false,\"name\":\"bench\","
    "\"lang\":\"c\",\"version\":\"1\",\"protocol\":1,\"echo\":true,\"headers\":true,"
    "\"no_responders\":true}\r\nPING\r\n";

const char *tcp_congestion = "reno";
int far_pid;

static int64_t deadline_ns;

void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void *must_alloc(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory)
        fail("out of memory (%zu bytes)", size);
    return memory;
}

/* ---- clocks and counters ------------------------------------------------ */

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t))
        fail("clock_gettime: %s", strerror(errno));
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

void deadline_start(double seconds) { deadline_ns = now_ns() + (int64_t)(seconds * 1e9); }

void deadline_check(int64_t now)
{
    if (now > deadline_ns)
        fail("the time limit passed before every message was counted");
}

/* Everything but idle and waiting for disks, from /proc/stat. */
static int64_t machine_cpu_ns(void)
{
    long long user, nice, system, idle, iowait, irq, softirq, steal;
    FILE *file = fopen("/proc/stat", "r");
    if (!file || fscanf(file, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &user, &nice, &system, &idle,
                        &iowait, &irq, &softirq, &steal) != 8)
        fail("/proc/stat: cannot be read");
    fclose(file);
    return (user + nice + system + irq + softirq + steal) * (1000000000 / sysconf(_SC_CLK_TCK));
}

/* The CPU clock of a process is utime + stime of /proc/<pid>/stat in
 * nanoseconds, where the file has ticks of 10 ms. Of a server of several
 * processes those count that are its children now. */
static int64_t process_cpu_ns(int pid);

static int64_t children_cpu_ns(int pid)
{
    char path[64];
    int child;
    int64_t sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0; /* a kernel without them: then there are none */
    while (fscanf(file, "%d", &child) == 1)
        sum += process_cpu_ns(child);
    fclose(file);
    return sum;
}

static int64_t process_cpu_ns(int pid)
{
    clockid_t clock;
    if (pid <= 0)
        return 0;
    int error = clock_getcpuclockid(pid, &clock);
    if (error)
        fail("no CPU clock for process %d: %s", pid, strerror(error));
    return clock_ns(clock) + children_cpu_ns(pid);
}

struct usage usage_now(int pid)
{
    struct usage u = {.server_cpu_ns = process_cpu_ns(pid) + process_cpu_ns(far_pid)};
    u.machine_cpu_ns = machine_cpu_ns();
    u.load_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    u.wall_ns = now_ns();
    return u;
}

/* Adds what was used between two moments, for a phase in pieces. */
void usage_add(struct usage *sum, const struct usage *from, const struct usage *to)
{
    sum->wall_ns += to->wall_ns - from->wall_ns;
    sum->server_cpu_ns += to->server_cpu_ns - from->server_cpu_ns;
    sum->load_cpu_ns += to->load_cpu_ns - from->load_cpu_ns;
    sum->machine_cpu_ns += to->machine_cpu_ns - from->machine_cpu_ns;
}

void print_usage(const struct usage *from, const struct usage *to)
{
    printf("\"seconds\": %.6f, \"server_cpu_ns\": %lld, \"load_cpu_ns\": %lld, \"machine_cpu_ns\": %lld",
           (double)(to->wall_ns - from->wall_ns) / 1e9,
           (long long)(to->server_cpu_ns - from->server_cpu_ns),
           (long long)(to->load_cpu_ns - from->load_cpu_ns),
           (long long)(to->machine_cpu_ns - from->machine_cpu_ns));
}

void memory_of(int pid, long *rss_kb, long *pss_kb)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        fail("%s: %s", path, strerror(errno));
    *rss_kb = *pss_kb = -1;
    while (fgets(line, sizeof line, file)) {
        if (!strncmp(line, "Rss:", 4))
            *rss_kb = atol(line + 4);
        if (!strncmp(line, "Pss:", 4))
            *pss_kb = atol(line + 4);
    }
    fclose(file);
    if (*rss_kb < 0 || *pss_kb < 0)
        fail("%s has no Rss or Pss", path);
}

/* ---- opening ------------------------------------------------------------ */

int tcp_socket(int flags)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | flags, 0);
    if (fd < 0)
        fail("socket: %s", strerror(errno));
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
        fail("TCP_NODELAY: %s", strerror(errno));
    /* bbr, where it is the default of the system, paces by timers: on the
     * loopback that measures the timers. */
    if (*tcp_congestion &&
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, tcp_congestion, (socklen_t)strlen(tcp_congestion)))
        fail("congestion control %s: %s", tcp_congestion, strerror(errno));
    return fd;
}

int tcp_connect(int fd, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(fd, (struct sockaddr *)&to, sizeof to);
}

/* Blocking read of one line; a byte at a time, only used before the load. */
static void read_line(struct conn *c, char *line, size_t size)
{
    size_t n = 0;
    while (n == 0 || line[n - 1] != '\n') {
        if (n + 1 == size)
            fail("a line of more than %zu bytes in the handshake", size);
        ssize_t got = recv(c->fd, line + n, 1, 0);
        if (got <= 0)
            fail("handshake: %s", got ? strerror(errno) : "the server closed the connection");
        n++;
    }
    line[n] = 0;
    if (!strncmp(line, "-ERR", 4))
        fail("the server answered %.*s", (int)n - 2, line);
}

/* A connection on which nothing has been said yet. */
struct conn *conn_dial(int port)
{
    struct timeval limit = {.tv_sec = 10};
    struct conn *c = must_alloc(sizeof *c);
    conn_room(c, OUT_MAX);
    c->fd = tcp_socket(SOCK_CLOEXEC);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (tcp_connect(c->fd, port))
        fail("connect to port %d: %s", port, strerror(errno));
    return c;
}

struct conn *conn_open(int port)
{
    char line[16384];
    struct conn *c = conn_dial(port);
    read_line(c, line, sizeof line);
    if (strncmp(line, "INFO {", 6))
        fail("expected INFO, received %.40s", line);
    conn_send_all(c, CONNECT_LINE, strlen(CONNECT_LINE));
    do
        read_line(c, line, sizeof line);
    while (strncmp(line, "PONG", 4));
    return c;
}

/* Blocking; only used before the load. */
void conn_send_all(struct conn *c, const char *text, size_t n)
{
    while (n) {
        ssize_t sent = send(c->fd, text, n, MSG_NOSIGNAL);
        if (sent <= 0)
            fail("send: %s", strerror(errno));
        text += sent;
        n -= (size_t)sent;
    }
}

/* Returns when the server has worked through everything sent so far. */
void conn_sync(struct conn *c)
{
    char line[16384];
    conn_send_all(c, "PING\r\n", 6);
    for (;;) {
        read_line(c, line, sizeof line);
        if (!strcmp(line, "PONG\r\n"))
            return;
        if (!strcmp(line, "PING\r\n"))
            conn_send_all(c, "PONG\r\n", 6);
    }
}

void conn_close(struct conn *c)
{
    close(c->fd);
    free(c->out);
    free(c);
}

/* Returns when the node at asking_port knows what the one at told_port was told by others' connections: a
 * subscription made behind theirs gets a message from there.  Blocking; only used before the load. */
void await_interest(int told_port, int asking_port)
{
    static const char SUBSCRIBE[] = "SUB bench.ready 1\r\n", PUBLISH[] = "PUB bench.ready 0\r\n\r\n";
    char byte;
    struct timeval pause = {.tv_usec = 2000};
    struct conn *told = conn_open(told_port), *asking = conn_open(asking_port);
    conn_send_all(told, SUBSCRIBE, strlen(SUBSCRIBE));
    conn_sync(told);
    setsockopt(told->fd, SOL_SOCKET, SO_RCVTIMEO, &pause, sizeof pause);
    do {
        deadline_check(now_ns());
        conn_send_all(asking, PUBLISH, strlen(PUBLISH));
    } while (recv(told->fd, &byte, 1, 0) <= 0);
    conn_close(told);
    conn_close(asking);
}

void conn_async(struct conn *c, int epfd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    struct timeval none = {0};
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    if (epoll_ctl(epfd, EPOLL_CTL_ADD, c->fd, &event))
        fail("epoll_ctl: %s", strerror(errno));
}

/* Polls for spin_us before it sleeps, so that waking up is not measured. */
void conns_poll(int epfd, int timeout_ms, int spin_us)
{
    struct epoll_event events[256];
    int n = spin_us ? 0 : epoll_wait(epfd, events, 256, timeout_ms);
    for (int64_t end = now_ns() + spin_us * 1000ll; !n && spin_us; n = epoll_wait(epfd, events, 256, 0))
        if (now_ns() > end) {
            n = epoll_wait(epfd, events, 256, timeout_ms);
            break;
        }
    if (n < 0 && errno != EINTR)
        fail("epoll_wait: %s", strerror(errno));
    for (int i = 0; i < n; i++) {
        struct conn *c = events[i].data.ptr;
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            c->readable = true;
        if (events[i].events & EPOLLOUT)
            c->writable = true;
    }
}

/* ---- writing ------------------------------------------------------------ */

static size_t write_some(struct conn *c, const char *text, size_t n)
{
    ssize_t sent = send(c->fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        if (errno != EAGAIN)
            fail("send: %s", strerror(errno));
        sent = 0;
    }
    if ((size_t)sent < n)
        c->writable = false;
    return (size_t)sent;
}

/* How much may wait to be written. */
void conn_room(struct conn *c, size_t most)
{
    c->out = realloc(c->out, most);
    if (!c->out)
        fail("out of memory (%zu bytes)", most);
    c->out_max = most;
}

void put_token(char *at, uint64_t number)
{
    for (int i = TOKEN - 1; i >= 0; i--, number /= 10)
        at[i] = (char)('0' + number % 10);
}

void conn_put(struct conn *c, const char *text, size_t n)
{
    if (c->out_len + n > c->out_max)
        fail("the server does not read: %zu bytes wait to be written", c->out_len);
    memcpy(c->out + c->out_len, text, n);
    c->out_len += n;
}

/* Control lines go out between blocks, never inside one. */
void conn_flush(struct conn *c)
{
    if (!c->out_len || c->bulk_len || !c->writable)
        return;
    size_t sent = write_some(c, c->out, c->out_len);
    c->out_len -= sent;
    memmove(c->out, c->out + sent, c->out_len);
}

void conn_write_bulk(struct conn *c)
{
    size_t n = c->bulk_len < WRITE_SIZE ? c->bulk_len : WRITE_SIZE;
    size_t sent = write_some(c, c->bulk, n);
    c->bulk += sent;
    c->bulk_len -= sent;
}

/* ---- reading ------------------------------------------------------------ */

struct shape *shape_new(const char *head, const char *body, size_t body_len)
{
    struct shape *s = must_alloc(sizeof *s);
    s->head = strlen(head);
    s->total = s->head + body_len + 2;
    s->text = must_alloc(s->total + 1);
    memcpy(s->text, head, s->head);
    memcpy(s->text + s->head, body, body_len);
    memcpy(s->text + s->total - 2, "\r\n", 2);
    return s;
}

static void check_head(const struct shape *s, const char *frame)
{
    for (size_t i = 0; i < s->head; i++)
        if (s->text[i] != ANY_BYTE && s->text[i] != frame[i])
            fail("unexpected frame %.*s", (int)s->head - 2, frame);
    if (s->same_len && memcmp(frame + s->same_a, frame + s->same_b, s->same_len))
        fail("delivered to the wrong subscription: %.*s", (int)s->head - 2, frame);
}

static void take_frames(struct conn *c, const char *first, const char *end)
{
    const struct shape *s = c->shape;
    check_head(s, end - s->total);
    if (memcmp(end - 2, "\r\n", 2))
        fail("a frame does not end in CRLF");
    if (!c->checked_first) {
        check_head(s, first);
        if (memcmp(first + s->head, s->text + s->head, s->total - s->head))
            fail("the payload of the first message differs");
        c->checked_first = true;
    }
    c->received += (uint64_t)(end - first) / s->total;
    if (c->on_frame)
        for (; first < end; first += s->total)
            c->on_frame(c, first);
}

static void take_line(struct conn *c, const char *line, size_t n)
{
    if (n == 6 && !memcmp(line, "PONG\r\n", 6))
        c->pongs++;
    else if (n == 6 && !memcmp(line, "PING\r\n", 6))
        conn_put(c, "PONG\r\n", 6);
    else if (n < 4 || memcmp(line, "INFO", 4))
        fail("unexpected line %.*s", (int)(n > 100 ? 100 : n), line);
}

/* The rest of a frame whose head was checked in an earlier read. */
static const char *take_rest(struct conn *c, const char *p, const char *end)
{
    size_t n = (size_t)(end - p) < c->skip ? (size_t)(end - p) : c->skip;
    p += n;
    c->skip -= n;
    if (n && !c->skip) {
        if (p[-1] != '\n')
            fail("a frame does not end in CRLF");
        c->received++;
    }
    return p;
}

static size_t size_in(const char *text, size_t n)
{
    size_t value = 0;
    if (!n || n > 9)
        fail("not a size in the head of a message: %.*s", (int)n, text);
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            fail("not a size in the head of a message: %.*s", (int)n, text);
        value = value * 10 + (size_t)(text[i] - '0');
    }
    return value;
}

/* "MSG subj sid [reply] n" or "HMSG subj sid [reply] h n". */
static void split_head(const char *line, const char *end, struct message *m)
{
    const char *words[6];
    size_t lengths[6], count = 0, sizes = *line == 'H' ? 2 : 1;
    for (const char *p = line; p < end && count < 6; count++) {
        const char *space = memchr(p, ' ', (size_t)(end - p));
        words[count] = p;
        lengths[count] = (size_t)((space ? space : end) - p);
        p += lengths[count] + 1;
    }
    if (count < 3 + sizes || count > 4 + sizes || memcmp(line, *line == 'H' ? "HMSG" : "MSG ", 4))
        fail("unexpected line %.*s", (int)(end - line > 100 ? 100 : end - line), line);
    bool has_reply = count == 4 + sizes;
    m->subject = words[1];
    m->subject_len = lengths[1];
    m->sid = (int)size_in(words[2], lengths[2]);
    m->reply = has_reply ? words[3] : "";
    m->reply_len = has_reply ? lengths[3] : 0;
    m->headers_len = sizes == 2 ? size_in(words[count - 2], lengths[count - 2]) : 0;
    size_t total = size_in(words[count - 1], lengths[count - 1]);
    if (total < m->headers_len)
        fail("headers of %zu bytes in a message of %zu", m->headers_len, total);
    m->body_len = total - m->headers_len;
}

/* Hands over one whole message; returns what follows, or NULL when the rest is still to come. */
static const char *take_message(struct conn *c, const char *p, const char *end)
{
    struct message m;
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    if (!newline)
        return NULL;
    split_head(p, newline - 1, &m);
    m.headers = newline + 1;
    m.body = m.headers + m.headers_len;
    if ((size_t)(end - m.headers) < m.headers_len + m.body_len + 2)
        return NULL;
    if (memcmp(m.body + m.body_len, "\r\n", 2))
        fail("a frame does not end in CRLF");
    c->received++;
    c->on_message(c, &m);
    return m.body + m.body_len + 2;
}

static const char *take_all(struct conn *c, const char *p, const char *end)
{
    const struct shape *s = c->shape;
    p = take_rest(c, p, end);
    while (p < end) {
        if (c->on_message && (*p == 'M' || *p == 'H')) {
            const char *next = take_message(c, p, end);
            if (!next)
                return p;
            p = next;
            continue;
        }
        if (s && end - p >= 4 && !memcmp(p, s->text, 4)) {
            const char *first = p;
            while ((size_t)(end - p) >= s->total && !memcmp(p, s->text, 4))
                p += s->total;
            if (p != first) {
                take_frames(c, first, p);
                continue;
            }
            if (!c->on_frame && (size_t)(end - p) >= s->head) {
                check_head(s, p);
                c->skip = s->total - (size_t)(end - p);
                return end;
            }
            return p;
        }
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        if (!newline)
            return p;
        take_line(c, p, (size_t)(newline + 1 - p));
        p = newline + 1;
    }
    return p;
}

/* One read; `readable` is cleared when the socket is drained. */
void conn_read(struct conn *c)
{
    static char space[CARRY_MAX + READ_SIZE];
    char *fresh = space + CARRY_MAX, *start = fresh - c->carry_len;
    ssize_t got = recv(c->fd, fresh, READ_SIZE, MSG_DONTWAIT);
    if (got < READ_SIZE)
        c->readable = false;
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        fail("the server closed a connection (%s)", got ? strerror(errno) : "end of stream");
    memcpy(start, c->carry, c->carry_len);
    const char *rest = c->take ? c->take(c, start, fresh + got) : take_all(c, start, fresh + got);
    c->carry_len = (size_t)(fresh + got - rest);
    if (c->carry_len > CARRY_MAX)
        fail("an incomplete line or frame of %zu bytes", c->carry_len);
    memcpy(c->carry, rest, c->carry_len);
}
