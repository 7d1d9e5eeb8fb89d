"""A small broker, and one with a stored stream, for the native generator; both can misbehave."""

import json
import socket
import subprocess
import threading
from contextlib import contextmanager

from bench.generator import build_generator

from headrace.protocol.stan import (
    Ack,
    ConnectRequest,
    ConnectResponse,
    MsgProto,
    PubAck,
    PubMsg,
    SubscriptionRequest,
    SubscriptionResponse,
)


class Broker:
    """Delivers publishes to exact and `x.*` subscriptions, one message at a time; `fault` spoils it.

    `far_port` leads to the same, as another node of a mesh would; with the fault "late" the first messages
    are lost, as while interest is on its way.
    """

    def __init__(self, fault):
        self.fault = fault
        self.subscribers = []
        self.published = 0
        self.lock = threading.Lock()
        self.threads = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.far = socket.create_server(("127.0.0.1", 0))
        self.far_port = self.far.getsockname()[1]
        self._start(self._accept, self.listener)
        self._start(self._accept, self.far)

    def _start(self, run, *args):
        thread = threading.Thread(target=run, args=args)
        self.threads.append(thread)
        thread.start()

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self._start(self._serve, client)

    def _serve(self, client):
        with client, client.makefile("rb") as lines:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                client.sendall(b"INFO {}\r\n")
                while line := lines.readline():
                    self._take(client, line.split(), lines)
            except OSError:
                # The generator left, which is how half of these tests end.
                return

    def _take(self, client, words, lines):
        if words[0] == b"PING":
            client.sendall(b"PONG\r\n")
        elif words[0] == b"SUB":
            self.subscribers.append((client, words[1], words[2]))
        elif words[0] == b"UNSUB":
            self.subscribers = [each for each in self.subscribers if each[::2] != (client, words[1])]
        elif words[0] in (b"PUB", b"HPUB"):
            body = lines.read(int(words[-1]) + 2)
            with self.lock:
                self._deliver(client, words, body)

    def _deliver(self, publisher, words, body):
        self.published += 1
        subject, reply = words[1], words[2:3] if words[0] == b"PUB" and len(words) == 4 else []
        head = b"MSG" if words[0] == b"PUB" else b"HMSG"
        sizes = words[-1:] if words[0] == b"PUB" else words[-2:]
        if self.fault == "error" and self.published == 3:
            publisher.sendall(b"-ERR 'Permissions Violation'\r\n")
        if self.fault == "close" and self.published == 3:
            publisher.shutdown(socket.SHUT_RDWR)
        copies = {"drop": 0, "twice": 2}.get(self.fault, 1) if self.published == 3 else 1
        if self.fault == "garble" and self.published == 3:
            body = b"\0" * len(body)
        if self.fault == "late" and self.published <= 3:
            return
        for client, wanted, sid in self.subscribers:
            if wanted in (subject, subject.rsplit(b".", 1)[0] + b".*"):
                frame = b" ".join([head, subject, sid, *reply, *sizes]) + b"\r\n" + body
                client.sendall(b"PING\r\n" + frame * copies)

    def close(self):
        for listener in (self.listener, self.far):
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for thread in self.threads:
            thread.join()


class StoredBroker(Broker):
    """Speaks what is needed of NATS Streaming, JetStream and the plain replay; `stored` is what it holds.

    Faults change what happens with the third message.
    """

    PAYLOAD = b"abcdefgh"

    def __init__(self, fault, stored=0):
        super().__init__(fault)
        self.stored = stored
        self.acknowledged = set()
        self.flow_control_answers = 0
        self.heartbeat_inbox = b""
        self.heartbeat_answers = 0
        self.pulled = []
        self.subjects = set()
        self.made = []
        self.wants_acks = False
        self.waiting = []
        self.newest = {}
        self.ids = []
        self.storages = []

    def _deliver(self, publisher, words, body):
        hpub = words[0] == b"HPUB"
        subject, reply = words[1].decode(), words[2] if len(words) == 4 + hpub else b""
        body = body[:-2]
        if hpub:
            self.ids.append(body[: int(words[-2])].split(b"Nats-Msg-Id: ")[1].strip())
            body = body[int(words[-2]) :]
        if subject == "_STAN.pub.bench.bench" or subject.split(".")[0] == "bench":
            self.subjects.add(subject)
            self._store(subject, reply, body)
        elif subject == "_STAN.ack":
            self.acknowledged.add(Ack.decode(body).sequence)
        elif subject.startswith("$JS.ACK."):
            self.acknowledged.add(int(subject.split(".")[5]))
            if reply:
                self._send(reply[:-1] + b"x" if self.fault == "foreign" else reply, b"")
        elif subject == "$JS.FC":
            self.flow_control_answers += 1
        elif subject == "_STAN.beat":
            self.heartbeat_answers += 1
        else:
            self._answer(subject, reply, body)

    def _store(self, subject, reply, body):
        self.published += 1
        third = self.published == 3
        lost = self.fault in ("lose", "refuse") and third
        self.stored += not lost
        self.newest[subject] = self.stored
        if reply.startswith(b"_STAN.acks."):
            guid = PubMsg.decode(body).guid
            if self.fault == "foreign" and third:
                guid = b"x" + guid[1:]
            answer = PubAck(guid, b"no space" if self.fault == "refuse" and third else b"").encode()
        else:
            if self.fault == "foreign" and third:
                reply = reply[:-1] + b"9"
            answer = b'{"stream":"bench","seq":%d}' % self.stored
            if self.fault == "refuse" and third:
                answer = b'{"error":{"code":503,"description":"no space"},"stream":"bench","seq":0}'
        copies = {"silent": 0, "twice": 2}.get(self.fault, 1) if third else 1
        for _ in range(copies):
            self._send(reply, answer)

    def _answer(self, subject, reply, body):
        if subject == "_STAN.discover.bench":
            self.heartbeat_inbox = ConnectRequest.decode(body).heartbeat_inbox
            subjects = [b"_STAN." + name for name in (b"pub.bench", b"sub", b"unsub", b"close")]
            self._send(reply, ConnectResponse(*subjects, sub_close_requests=b"_STAN.subclose").encode())
        elif subject == "_STAN.sub":
            self._subscribe(reply, SubscriptionRequest.decode(body))
        elif subject.startswith("_STAN.replay."):
            assert json.loads(body) == {"channel": "bench", "start_sequence": 1}
            self._replay(reply)
        elif subject.startswith("_STAN."):
            self._send(reply, b"")
        elif "CONSUMER" in subject and "CREATE" in subject:
            self._send(reply, b"{}")
            self.made.append(subject.removeprefix("$JS.API."))
            config = json.loads(body)["config"]
            self.wants_acks = config["ack_policy"] == "explicit"
            if "deliver_subject" in config:
                self._push(config)
            else:
                self.waiting = self._sequences()
        elif "STREAM.CREATE" in subject:
            self.made.append(subject.removeprefix("$JS.API."))
            self.storages.append(json.loads(body)["storage"])
            fails = self.fault == "refuse" and len(self.made) == 3
            if self.fault == "no peers" and len(self.made) < 3:
                error = {"code": 400, "err_code": 10005, "description": "no suitable peers for placement"}
                self._send(reply, json.dumps({"error": error}, separators=(",", ":")).encode())
                return
            self._send(reply, b'{"error":{"description":"no space"}}' if fails else b"{}")
        elif "DIRECT.GET" in subject:
            self._get(subject.removeprefix("$JS.API.DIRECT.GET.bench").removeprefix("."), reply, body)
        elif "CONSUMER.MSG.NEXT" in subject:
            self._pull(reply, json.loads(body))
        else:
            delivered = len(self._sequences()) - len(self.waiting)
            pending = delivered - len(self.acknowledged) if self.wants_acks else 0
            pending += self.fault == "unacknowledged"
            document = {"state": {"messages": self.stored, "last_seq": self.stored}}
            document["num_pending"] = len(self.waiting) if "CONSUMER" in subject else 0
            document |= {"num_ack_pending": pending, "num_redelivered": int(self.fault == "redelivered")}
            self._send(reply, json.dumps(document, separators=(",", ":")).encode())

    def _sequences(self):
        """What is sent, in order."""
        found = list(range(1, self.stored + 1))
        changed = {"gap": [4], "twice": [3, 3], "swapped": [4, 3], "extra": [3]}
        if self.fault in changed and self.stored > 3:
            found[2:4] = [*changed[self.fault], *([4] if self.fault in ("twice", "extra") else [])]
            if self.fault == "extra":
                found.append(self.stored + 1)
        return found

    def _body(self, sequence):
        return b"garbled!" if self.fault == "garble" and sequence == 3 else self.PAYLOAD

    def _subscribe(self, reply, request):
        self._send(self.heartbeat_inbox, b"", reply=b"_STAN.beat")
        self._send(reply, SubscriptionResponse(b"_STAN.ack").encode())
        first = self.stored if request.start_position == 1 else 1
        for sequence in self._sequences():
            if sequence < first or (sequence in self.acknowledged and self.fault != "unacknowledged"):
                continue
            again = self.fault == "redelivered" and sequence == 3
            message = MsgProto(sequence, b"bench", b"", self._body(sequence), 1, again, int(again))
            self._send(request.inbox, message.encode())

    def _push(self, config):
        inbox = config["deliver_subject"].encode()
        for sequence in self._sequences():
            delivered = 2 if self.fault == "redelivered" and sequence == 3 else 1
            reply = f"$JS.ACK.bench.bench.{delivered}.{sequence}.{sequence}.1.0".encode()
            self._send(inbox, self._body(sequence), reply=reply)
            if sequence == 2 and config.get("flow_control"):
                self._send(inbox, b"", b"NATS/1.0 100 FlowControl Request\r\n\r\n", b"$JS.FC")
                self._send(inbox, b"", b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Stream: 2\r\n\r\n")

    def _get(self, subject, inbox, body):
        sequence = self.newest[subject] if subject else json.loads(body)["seq"]
        told = sequence + 1 if self.fault == "swapped" and sequence == 3 else sequence
        headers = b"NATS/1.0\r\nNats-Stream: bench\r\nNats-Sequence: %d\r\n\r\n" % told
        if self.fault == "missing" and sequence == 3:
            headers = b"NATS/1.0 404 Message Not Found\r\n\r\n"
        self._send(inbox, self._body(sequence), headers)
        if self.fault == "twice" and sequence == 3:
            self._send(inbox, self._body(sequence), headers)

    def _pull(self, inbox, request):
        self.pulled.append(request["batch"])
        more = self.fault == "extra" and len(self.waiting) == request["batch"] + 1
        for sequence in self.waiting[: request["batch"] + more]:
            delivered = 2 if self.fault == "redelivered" and sequence == 3 else 1
            reply = f"$JS.ACK.bench.bench.{delivered}.{sequence}.{sequence}.1.0".encode()
            self._send(inbox, self._body(sequence), reply=reply)
        del self.waiting[: request["batch"]]
        if self.fault == "status":
            self._send(inbox, b"", b"NATS/1.0 409 Consumer Deleted\r\n\r\n")

    def _replay(self, inbox):
        for sequence in self._sequences():
            reply = b"Nats-Reply: somewhere\r\n" if sequence % 2 else b""
            headers = (
                b"NATS/1.0\r\nNats-Stream: bench\r\nNats-Subject: bench\r\nNats-Sequence: %d\r\n" % sequence
            )
            stamp = b"Nats-Time-Stamp: 2026-11-21T08:00:00.123456789Z\r\n"
            self._send(inbox, self._body(sequence), headers + stamp + reply + b"\r\n")
        if self.fault != "silent":
            self._send(inbox, b"", b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n\r\n")

    def _send(self, subject, body, headers=b"", reply=b""):
        for client, wanted, sid in self.subscribers:
            if wanted in (subject, subject.rsplit(b".", 1)[0] + b".*"):
                head = [b"HMSG" if headers else b"MSG", subject, sid, *([reply] if reply else [])]
                head += [b"%d" % len(headers)] * bool(headers) + [b"%d" % (len(headers) + len(body))]
                frame = b" ".join(head) + b"\r\n" + headers + body + b"\r\n"
                pieces = [frame[i : i + 7] for i in range(0, len(frame), 7)]
                for piece in pieces if self.fault == "pieces" else [frame]:
                    client.sendall(piece)
                return


@contextmanager
def broker(fault=None, kind=Broker, **more):
    running = kind(fault, **more)
    try:
        yield running
    finally:
        running.close()


def run_generator(port, mode, *words):
    limits = ["--warmup", "0", "--seconds", "5", "--deadline", "10"]
    command = [str(build_generator()), mode, "--port", str(port), *limits, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)
