/* main.c - options of the load generator.
 *
 *   loadgen MODE --port N [--pid N] [options]
 *
 * MODE is traffic, requests, interest, connects, idle, store, single, consume, assets, mqtt or mqtt-idle; the
 * files of those names (sessions.c for connects and idle, mqtt.c for mqtt-idle) say what each does.  One line
 * of JSON goes to stdout.  Exit code 0: every count was exact.  1: something was
 * wrong, said on stderr.  2: wrong options.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const char HELP[] =
    "usage: loadgen traffic|requests|interest|connects|idle|store|single|consume|assets|mqtt|mqtt-idle --port N\n"
    "               [options]\n"
    "  --pid N            process whose CPU time and memory are measured\n"
    "  --far-port N       another node of a mesh: subscribers of traffic, the responder of requests, and\n"
    "                     who is told of interest are there\n"
    "  --spread           the server is several processes: wait until all subscribers of traffic are known to all\n"
    "  --far-pid N        the process of that node: its CPU time is added\n"
    "  --seconds S        length of the measured phase (default 2)\n"
    "  --warmup S         length of the phase before it (default 0.3)\n"
    "  --deadline S       time limit of the whole run (default 60)\n"
    "  --count N          most messages per flow, requests per connection, or connections; what consume reads;\n"
    "                     streams that assets makes\n"
    "  --payload N        bytes of payload (default 16)\n"
    "  --headers          publish with a header block\n"
    "  --flows N          publishers, each with its own subject; requesters (default 1)\n"
    "  --fan N            subscribers of each flow, consumers of each stream (default 0)\n"
    "  --subjects N       store: so many subjects in turn, and the memory of the server at the end\n"
    "  --ids              store: a Nats-Msg-Id in each message\n"
    "  --memory           store: into a stream in memory\n"
    "  --replicas N       store: of the stream (default 1)\n"
    "  --rate N           store: messages a second of all publishers together (default: as fast as they are taken)\n"
    "  --operation NAME   single: pull, ack, get-subject or get-sequence\n"
    "  --batch N          consume: a pull consumer, asked for N messages at a time\n"
    "  --wildcards N      one flow over N wildcard subscriptions\n"
    "  --unique           wildcards: every subject of the precomputed block differs\n"
    "  --connections N    connections of the wildcard subscriptions; handshakes at once (default 10)\n"
    "  --inflight N       requests on their way per requester, messages without their ack (default 1)\n"
    "  --speak NAME       store, consume: stan, jetstream, or replay (of a stored stream, in plain NATS)\n"
    "  --durable          consume: a durable subscription that acknowledges\n"
    "  --qos N            mqtt: of publishers and subscribers (default 0)\n"
    "  --churn N          subscribe and unsubscribe N times a second; 0: as fast as possible\n"
    "  --window N         bytes a subscriber may be behind before its publisher pauses\n"
    "  --spin US          requests: poll this long before sleeping (default 0)\n"
    "  --congestion NAME  congestion control of the generator's sockets (default reno; \"\" for the system's)\n"
    "  --settle S         wait before memory, or CPU time of an idle server, is read (default 3)\n";

enum { PORT = 1, PID, SECONDS, WARMUP, DEADLINE, COUNT, PAYLOAD, HEADERS_ON, FLOWS, FAN, WILDCARDS, UNIQUE,
       CONNECTIONS, INFLIGHT, CHURN, WINDOW, SETTLE, SPIN, CONGESTION, SPEAK, DURABLE, SUBJECTS, BATCH,
       FAR_PORT, FAR_PID, SPREAD, IDS, MEMORY, OPERATION, REPLICAS, RATE, QOS };

static const struct option LONG[] = {
    {"port", 1, 0, PORT}, {"pid", 1, 0, PID}, {"seconds", 1, 0, SECONDS}, {"warmup", 1, 0, WARMUP},
    {"deadline", 1, 0, DEADLINE}, {"count", 1, 0, COUNT}, {"payload", 1, 0, PAYLOAD},
    {"headers", 0, 0, HEADERS_ON}, {"flows", 1, 0, FLOWS}, {"fan", 1, 0, FAN},
    {"wildcards", 1, 0, WILDCARDS}, {"unique", 0, 0, UNIQUE}, {"connections", 1, 0, CONNECTIONS},
    {"inflight", 1, 0, INFLIGHT}, {"churn", 1, 0, CHURN}, {"window", 1, 0, WINDOW},
    {"settle", 1, 0, SETTLE}, {"spin", 1, 0, SPIN}, {"congestion", 1, 0, CONGESTION},
    {"speak", 1, 0, SPEAK}, {"durable", 0, 0, DURABLE},
    {"subjects", 1, 0, SUBJECTS}, {"batch", 1, 0, BATCH},
    {"far-port", 1, 0, FAR_PORT}, {"far-pid", 1, 0, FAR_PID}, {"spread", 0, 0, SPREAD}, {"ids", 0, 0, IDS},
    {"memory", 0, 0, MEMORY}, {"operation", 1, 0, OPERATION}, {"replicas", 1, 0, REPLICAS},
    {"rate", 1, 0, RATE}, {"qos", 1, 0, QOS}, {0, 0, 0, 0}};

__attribute__((noreturn)) static void usage_error(const char *what)
{
    fprintf(stderr, "loadgen: %s\n%s", what, HELP);
    exit(2);
}

static double number(const char *text, double least, double most)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least && value <= most))
        usage_error("a number is out of range");
    return value;
}

static enum dialect dialect_named(const char *name)
{
    static const char *const NAMES[] = {
        [SPEAK_STAN] = "stan", [SPEAK_JETSTREAM] = "jetstream", [SPEAK_REPLAY] = "replay"};
    for (enum dialect d = SPEAK_STAN; d <= SPEAK_REPLAY; d++)
        if (!strcmp(name, NAMES[d]))
            return d;
    usage_error("an unknown dialect");
}

static enum operation operation_named(const char *name)
{
    static const char *const NAMES[] = {
        [PULL] = "pull", [ACK] = "ack", [GET_SUBJECT] = "get-subject", [GET_SEQUENCE] = "get-sequence"};
    for (enum operation op = PULL; op <= GET_SEQUENCE; op++)
        if (!strcmp(name, NAMES[op]))
            return op;
    usage_error("an unknown operation");
}

static void set(struct options *o, int option, const char *text)
{
    switch (option) {
    case PORT: o->port = (int)number(text, 1, 65535); break;
    case PID: o->pid = (int)number(text, 1, 1 << 30); break;
    case FAR_PORT: o->far_port = (int)number(text, 1, 65535); break;
    case SPREAD: o->spread = true; break;
    case FAR_PID: far_pid = (int)number(text, 1, 1 << 30); break;
    case SECONDS: o->seconds = number(text, 0.01, 86400); break;
    case WARMUP: o->warmup = number(text, 0, 3600); break;
    case DEADLINE: o->deadline = number(text, 0.1, 90000); break;
    case COUNT: o->count = (uint64_t)number(text, 1, 1e18); break;
    case PAYLOAD: o->payload = (size_t)number(text, 0, 64 << 20); break;
    case HEADERS_ON: o->headers = true; break;
    case FLOWS: o->flows = (int)number(text, 0, 999); break;
    case FAN: o->fan = (int)number(text, 0, 5000); break;
    case WILDCARDS: o->wildcards = (int)number(text, 1, 89999); break;
    case UNIQUE: o->unique = true; break;
    case CONNECTIONS: o->connections = (int)number(text, 1, 255); break;
    case INFLIGHT: o->inflight = (int)number(text, 1, 65536); break;
    case CHURN: o->churn = (long)number(text, 0, 1e9); break;
    case WINDOW: o->window = (size_t)number(text, 1, 1e12); break;
    case SETTLE: o->settle = number(text, 0, 600); break;
    case SPIN: o->spin_us = (int)number(text, 0, 1000000); break;
    case CONGESTION: tcp_congestion = text; break;
    case SPEAK: o->dialect = dialect_named(text); break;
    case DURABLE: o->durable = true; break;
    case SUBJECTS: o->subjects = (uint64_t)number(text, 1, 1e9); break;
    case IDS: o->ids = true; break;
    case MEMORY: o->memory = true; break;
    case REPLICAS: o->replicas = (int)number(text, 1, 5); break;
    case RATE: o->rate = number(text, 1, 1e9); break;
    case QOS: o->qos = (int)number(text, 0, 2); break;
    case OPERATION: o->operation = operation_named(text); break;
    case BATCH: o->batch = (int)number(text, 1, 65536); break;
    default: usage_error("unknown option");
    }
}

int main(int argc, char **argv)
{
    struct options o = {.seconds = 2, .warmup = 0.3, .deadline = 60, .settle = 3, .count = 1000000000000,
                        .payload = 16, .window = 16 << 20, .flows = 1, .connections = 10, .inflight = 1,
                        .churn = -1, .replicas = 1};
    struct rlimit files;
    int option;
    if (argc < 2)
        usage_error("no mode");
    while ((option = getopt_long(argc - 1, argv + 1, "", LONG, NULL)) != -1)
        set(&o, option, optarg);
    if (optind != argc - 1 || !o.port)
        usage_error(o.port ? "too many arguments" : "no --port");
    if (!o.far_port)
        o.far_port = o.port;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    deadline_start(o.deadline);
    if (!strcmp(argv[1], "traffic"))
        run_traffic(&o);
    else if (!strcmp(argv[1], "requests"))
        run_requests(&o);
    else if (!strcmp(argv[1], "interest"))
        run_interest(&o);
    else if (!strcmp(argv[1], "connects"))
        run_connects(&o);
    else if (!strcmp(argv[1], "idle"))
        run_idle(&o);
    else if (!strcmp(argv[1], "store"))
        run_store(&o);
    else if (!strcmp(argv[1], "single"))
        run_single(&o);
    else if (!strcmp(argv[1], "consume"))
        run_consume(&o);
    else if (!strcmp(argv[1], "assets"))
        run_assets(&o);
    else if (!strcmp(argv[1], "mqtt"))
        run_mqtt(&o);
    else if (!strcmp(argv[1], "mqtt-idle"))
        run_mqtt_idle(&o);
    else
        usage_error("unknown mode");
    return 0;
}
