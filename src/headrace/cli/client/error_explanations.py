"""Explanations of the errors of JetStream: what happened, and what to do.

Here lives one sentence for each number of `headrace.protocol.jetstream.errors`, beside the server's text.
Never lives here: which errors there are.
"""

from __future__ import annotations

from typing import Final

EXPLANATIONS: Final[dict[int, str]] = {
    10002: (
        "The account has used up its storage or its streams or consumers; remove what is not needed, or "
        "raise the limits of the account."
    ),
    10003: (
        "The subject of the API does not take such a request; compare its fields with those of "
        "`headrace schema info`."
    ),
    10004: (
        "Some servers of the cluster did not answer in time, so the list is not whole; ask again, and look "
        "whether all servers are up."
    ),
    10005: (
        "No server of the cluster can take the stream or consumer; the text says which server lacks what "
        "(room, tags, being up), so correct the placement or add a server."
    ),
    10006: (
        "The request is one for a cluster, and this server runs JetStream alone; send it to a server of a "
        "cluster, or do without it."
    ),
    10007: (
        "The stream or consumer is assigned to other servers of the cluster; ask through any server again, "
        "which hands the request on."
    ),
    10008: (
        "The cluster of JetStream has no leader for now; wait and ask again, and if that lasts, see that "
        "most of its servers are up."
    ),
    10009: "The server that was asked is not the leader of the cluster; ask again, which reaches the leader.",
    10010: (
        "More than one replica, or a move, needs a cluster; set `cluster` with a name in the configuration, "
        "or one replica."
    ),
    10011: "Placement by tags is not possible for this request; leave the tags out.",
    10012: "The consumer could not be made for the reason in the text; correct that and make it again.",
    10013: "Another consumer of the stream has this name; choose another name, or remove or update that one.",
    10014: (
        "The stream has no consumer of this name; see `headrace consumer ls`, and note that an ephemeral "
        "one goes after its time without activity."
    ),
    10015: (
        "The subject to which a push consumer delivers is no valid subject; give one without empty tokens "
        "and spaces."
    ),
    10016: (
        "The subject of the request is that for a durable consumer, but has no name; put the durable name "
        "into it."
    ),
    10017: "The name in the subject and the durable name in the request differ; make both the same.",
    10018: (
        "The subject of the request is that for a durable consumer, but its configuration has no durable "
        "name; set `durable_name`."
    ),
    10019: (
        "The configuration is that of an ephemeral consumer, but the subject has a durable name; ask on the "
        "subject without a name."
    ),
    10020: (
        "The subject is that for an ephemeral consumer, but the configuration has a durable name; leave "
        "`durable_name` out, or ask on the subject with the name."
    ),
    10021: (
        "The API prefix of a source or mirror elsewhere overlaps with a subject of a stream here, so "
        "requests would be stored; choose another prefix or other subjects."
    ),
    10022: (
        "The delivery prefix of a source or mirror elsewhere overlaps with a subject of this stream, so it "
        "would store its own deliveries; choose another prefix."
    ),
    10023: (
        "The server has no room or memory left for JetStream; free some, or raise `max_file_store` or "
        "`max_memory_store`, and ask again."
    ),
    10024: (
        "The delivery prefix of a source or mirror elsewhere has a wildcard; give a prefix without `*` and "
        "`>`."
    ),
    10025: (
        "The body of the request is no JSON that the server can read; the text says where, and "
        "`headrace schema validate` finds such mistakes before."
    ),
    10026: (
        "The stream or the account has as many consumers as it may; remove some (`headrace consumer ls`), "
        "or raise `max_consumers` or the account's limit."
    ),
    10027: "The account has as many streams as it may; remove one, or raise the account's limit.",
    10028: (
        "The account or the server has too little memory left for what streams in memory ask; lower "
        "`max_bytes`, remove streams, or raise `max_memory_store`."
    ),
    10029: (
        "The mirror could not begin to read its stream for the reason in the text; see that the other "
        "stream is there and that its API can be reached."
    ),
    10030: (
        "The mirror takes smaller messages than the stream that it copies has; set `max_msg_size` of the "
        "mirror as high as there."
    ),
    10031: (
        "A mirror copies exactly one stream; leave the sources out, or make a stream with sources in its "
        "place."
    ),
    10032: "A mirror begins either at a sequence or at a time; leave one of the two out.",
    10033: (
        "This mirror may not filter by subject; leave the filter out, or make a stream with a source in its "
        "place."
    ),
    10034: "A mirror has the subjects of its stream and takes no publications; leave `subjects` out.",
    10035: (
        "The server does not know the account of the request; see that the account is there and that its "
        "token was pushed to the servers."
    ),
    10036: "A cluster does not do this request yet; do it on a server alone, or without it.",
    10037: "No message has this sequence or subject; it was removed, has expired, or was never stored.",
    10038: "The request takes no body; send it empty.",
    10039: (
        "The account may not use JetStream; set `jetstream: enabled` for it in the configuration, or limits "
        "in its token."
    ),
    10040: (
        "The server that is to be removed is no member of the stream's or consumer's group; see its name in "
        "`headrace stream info`."
    ),
    10041: (
        "The replicas could not agree for the reason in the text; see that most servers of the group are "
        "up, and their logs."
    ),
    10042: (
        "The server could not subscribe to the parts of a backup that is to be restored, for the reason in "
        "the text; restore it again."
    ),
    10043: (
        "The stream has no message of this sequence; look at its first and last one with `headrace stream "
        "info`."
    ),
    10044: "No server of this name is in the cluster; see `headrace server ls`.",
    10045: (
        "The source could not begin to read its stream for the reason in the text; see that the other "
        "stream is there and that its API can be reached."
    ),
    10046: "The stream takes smaller messages than its source has; set `max_msg_size` as high as there.",
    10047: (
        "The account or the server has too little storage left for what streams in files ask; lower "
        "`max_bytes`, remove streams, or raise `max_file_store`."
    ),
    10048: (
        "The stream could not be assigned to servers for the reason in the text; correct its placement or "
        "its replicas."
    ),
    10049: "The stream could not be made for the reason in the text; correct that and make it again.",
    10050: "The stream could not be removed for the reason in the text; look into the log of the server.",
    10051: (
        "The stream refused the message for a reason of its own, in the text; see its settings with "
        "`headrace stream info`."
    ),
    10052: (
        "The configuration of the stream is not possible for the reason in the text; correct that setting."
    ),
    10053: (
        "The configuration is beyond a limit of the account or the server, which the text names; ask for "
        "less, or raise the limit."
    ),
    10054: (
        "The message is larger than the stream takes; send a smaller one, or raise `max_msg_size` of the "
        "stream."
    ),
    10055: "The mirror of a stream cannot be changed to copy another one; make a new stream.",
    10056: "The name in the subject and the name in the configuration differ; make both the same.",
    10057: (
        "The stream could not be moved to other servers for the reason in the text; see that the servers of "
        "its placement are up and have room."
    ),
    10058: (
        "There is a stream of this name with other settings; change it with `headrace stream edit`, or "
        "choose another name."
    ),
    10059: (
        "There is no stream of this name in this account and domain; see `headrace stream ls`, and check "
        "user, context and `--js-domain`."
    ),
    10060: (
        "The publisher expected its message in another stream; see which stream has the subject with "
        "`headrace stream ls --subject`, or correct the header `Nats-Expected-Stream`."
    ),
    10061: "The number of replicas cannot be changed for this stream; make a new one with as many, and copy.",
    10062: (
        "The backup could not be restored for the reason in the text; check it with `headrace stream "
        "restore --dry-run`, and see that the server has room."
    ),
    10063: (
        "The sequence that a stored message was to have is not the next one of the stream; copy from the "
        "sequence that follows the stream's last one."
    ),
    10064: (
        "The stream could not be backed up for the reason in the text; back it up again, and see the log of "
        "the server."
    ),
    10065: (
        "Another stream of the account has a subject that overlaps with one of these; find it with "
        "`headrace stream ls --subject`, and change one of the two."
    ),
    10066: (
        "The template could not be made for the reason in the text; templates were removed from newer "
        "servers, so make streams themselves."
    ),
    10067: "The template could not be removed for the reason in the text; look into the log of the server.",
    10068: "There is no template of this name; newer servers have no templates.",
    10069: (
        "The stream could not be changed for the reason in the text; correct that setting, or make a new "
        "stream and copy."
    ),
    10070: (
        "The last message of the stream has another id than the publisher expected, so another one was "
        "stored in between; read the last message and decide anew."
    ),
    10071: (
        "The last sequence of the stream, or of the subject, is another one than the publisher expected, so "
        "somebody else has written; read it and decide anew."
    ),
    10072: (
        "The server could not write the backup that is to be restored to its store; see that its directory "
        "can be written and has room."
    ),
    10073: "The name in the subject and the name of the template differ; make both the same.",
    10074: "A server alone has one replica; set `num_replicas` to 1, or run a cluster.",
    10075: (
        "The replicas of the stream or consumer could not be given to other servers; see that enough "
        "servers with room are up, and ask again."
    ),
    10076: (
        "The server runs without JetStream; start it with `-js` or with a block `jetstream` in its "
        "configuration, or ask another one."
    ),
    10077: (
        "The message could not be stored for the reason in the text, often a limit of the stream with "
        "`discard: new` or a full disk; make room or raise the limit."
    ),
    10078: "The request to make a consumer has no configuration; put it into `config`.",
    10079: (
        "The subject to which a push consumer delivers has a wildcard; give a subject without `*` and `>`."
    ),
    10080: "Only pull consumers have `max_waiting`; leave it out, or leave the delivery subject out.",
    10081: (
        "The consumer would deliver to a subject of its own stream, without an end; choose another delivery "
        "subject."
    ),
    10082: (
        "Without acknowledgements nothing can wait for one; leave `max_ack_pending` out, or set "
        "`ack_policy` to explicit or all."
    ),
    10083: "The heartbeat of the consumer is shorter than 100 ms; set it to 100 ms or more.",
    10084: (
        "On a work queue a pull consumer removes messages by acknowledging each; set `ack_policy` to "
        "explicit."
    ),
    10085: (
        "A pull consumer of this kind of request needs a durable name; set `durable_name`, or use the newer "
        "request with a name."
    ),
    10086: "A pull consumer gets as much as it asks for, so it has no rate; leave `rate_limit_bps` out.",
    10087: "The number of waiting pulls is negative; set `max_waiting` to a positive number or leave it out.",
    10088: (
        "Only push consumers have a heartbeat in their settings; leave it out, and ask for one in the pull."
    ),
    10089: "Only push consumers have flow control; leave it out, or set a delivery subject.",
    10090: (
        "A consumer for sources and mirrors (`direct`) has to be a push consumer; set a delivery subject or "
        "leave `direct` out."
    ),
    10091: "A consumer for sources and mirrors (`direct`) has to be ephemeral; leave the durable name out.",
    10092: (
        "A consumer for sources and mirrors (`direct`) cannot be bound to a mapped subject; ask on the "
        "subject that is not mapped."
    ),
    10093: (
        "The filter of the consumer matches no subject of the stream; correct the filter, or add the "
        "subject to the stream."
    ),
    10094: (
        "The delivery subject of the consumer is not possible for the reason in the text; choose another one."
    ),
    10095: "The share of acknowledgements to be sampled cannot be read; give a percentage such as 50 or 50%.",
    10096: (
        "The server cannot use the stream, because it is being closed or was removed; look at it with "
        "`headrace stream info`, and ask again."
    ),
    10097: "The headers of the message have more than 64 KiB; put what is large into the body.",
    10098: "On a work queue messages are removed as they are acknowledged; set `ack_policy` to explicit.",
    10099: (
        "A work queue gives each message to one consumer, and there is one for all subjects already; give "
        "each consumer a filter that overlaps with no other."
    ),
    10100: (
        "A work queue gives each message to one consumer, and another one has a filter that overlaps with "
        "this one; choose filters that do not."
    ),
    10101: "A consumer of a work queue begins with the first message; set `deliver_policy` to all.",
    10102: "The name of the consumer is longer than it may be; choose one within the length in the text.",
    10103: "A durable name has a dot, a star or a `>`, which subjects use; choose one without.",
    10104: (
        "The server could not make the store of the consumer for the reason in the text; see that its disk "
        "has room and can be written."
    ),
    10105: (
        "There is an active consumer of this name; wait until nobody reads from it, remove it, or choose "
        "another name."
    ),
    10106: (
        "The durable consumer in its place has other settings; change it with `headrace consumer edit`, or "
        "remove it first."
    ),
    10107: "The description of the consumer is longer than it may be; shorten it to the length in the text.",
    10108: (
        "Flow control of a push consumer needs heartbeats, by which a stalled client is found; set "
        "`idle_heartbeat`."
    ),
    10109: (
        "The stream is sealed, so it takes no message and loses none; copy it into a new one, since a seal "
        "cannot be undone."
    ),
    10110: "The messages could not be removed for the reason in the text; look into the log of the server.",
    10111: (
        "The stream could not be rolled up for the reason in the text; see that it allows that "
        "(`allow_rollup_hdrs`) and that nothing denies purges."
    ),
    10112: (
        "The delivery subject of the push consumer cannot be used; give one without wildcards that is no "
        "subject of the stream or of the API."
    ),
    10113: "The account asks each stream for a limit of its size; set `max_bytes`.",
    10114: (
        "The largest batch of a pull is zero or less; set `max_batch` to a positive number or leave it out."
    ),
    10115: (
        "The longest time of a pull is shorter than 1 ms; set `max_expires` to 1 ms or more, or leave it out."
    ),
    10116: (
        "There are more pauses between deliveries than deliveries; set `max_deliver` higher than the number "
        "of `backoff` values."
    ),
    10117: (
        "The answer with the counts of all subjects would be too long; ask with a filter of subjects, or "
        "page by page."
    ),
    10118: (
        "The servers that have the stream are down; start them, or see with `headrace server ls` which are "
        "missing."
    ),
    10119: (
        "The servers that have the consumer are down; start them, or see with `headrace server ls` which "
        "are missing."
    ),
    10120: (
        "The account has limits for tiers only, and none for this number of replicas; use a number that has "
        "a tier, or add the tier."
    ),
    10121: (
        "The consumer asks for more messages that wait for an acknowledgement than the server or the "
        "account allows; set `max_ack_pending` within the limit in the text."
    ),
    10122: (
        "The stream may be larger than the account allows for one; set `max_bytes` within the account's "
        "limit."
    ),
    10123: "A stream is either moved or given another number of replicas; make two changes of it.",
    10124: (
        "The stream is on its way to other servers already; wait until that is done (`headrace stream "
        "info`), or cancel it."
    ),
    10125: (
        "The largest batch of a pull is beyond the server's limit; set `max_batch` within the limit in the "
        "text."
    ),
    10126: "The consumer asks for more replicas than its stream has; ask for as many or fewer.",
    10127: (
        "The name of the consumer has a slash or backslash, and is a name of a directory, too; choose one "
        "without."
    ),
    10128: (
        "The name of the stream has a slash or backslash, and is a name of a directory, too; choose one "
        "without."
    ),
    10129: "Nothing is being moved, so nothing can be cancelled; see `headrace stream info`.",
    10130: (
        "A stream of this name is there, and a restore does not replace it; remove it, or restore under "
        "another name with `--name`."
    ),
    10131: (
        "The filter in the subject of the request is another one than that in the configuration; make both "
        "the same."
    ),
    10132: "The consumer has a name and a durable name that differ; make both the same, or give one.",
    10133: "The number of replicas is negative; give 1, 3 or 5, or 0 for the default.",
    10134: (
        "A consumer of a stream that keeps messages by interest has to have as many replicas as the stream; "
        "leave `num_replicas` out."
    ),
    10135: "The metadata of the consumer are larger than they may be; keep them within the size in the text.",
    10136: "The consumer has both `filter_subject` and `filter_subjects`; give one of the two.",
    10137: (
        "The request has one filter in its subject, but the consumer has several; ask on the subject "
        "without a filter."
    ),
    10138: "Two filters of the consumer match the same subject; choose filters that do not overlap.",
    10139: "A filter among several of the consumer is empty; leave it out.",
    10140: "The stream has the same source twice, with the same filter and transforms; leave one out.",
    10141: "The name of a source is no name of a stream; correct it.",
    10142: "The name of the mirrored stream is no name of a stream; correct it.",
    10143: "A mirror has the sequences of its stream; leave `first_seq` out.",
    10144: (
        "A source has a filter and transforms of subjects, which filter, too; put the filter into the "
        "transforms."
    ),
    10145: "The subject that a source transforms is not valid, as the text says; correct it.",
    10146: "The transform of a source is not possible, as the text says; correct its destination.",
    10147: "Two transforms of a source match the same subject; choose ones that do not overlap.",
    10148: (
        "The request was to make a consumer only if there is none, and there is one with other settings; "
        "update it, or choose another name."
    ),
    10149: (
        "The request was to update a consumer only, and there is none of this name; make it, or see "
        "`headrace consumer ls`."
    ),
    10150: (
        "A mirror has a filter and transforms of subjects, which filter, too; put the filter into the "
        "transforms."
    ),
    10151: "The subject that a mirror transforms is not valid, as the text says; correct it.",
    10152: "Two transforms of a mirror match the same subject; choose ones that do not overlap.",
    10153: (
        "The consumer would stay longer without activity than the server allows; set `inactive_threshold` "
        "within the limit in the text."
    ),
    10154: "The transform of a mirror is not possible, as the text says; correct its destination.",
    10155: "The subject that the stream transforms is not valid, as the text says; correct it.",
    10156: "The transform of the stream is not possible, as the text says; correct its destination.",
    10157: (
        "The request asked for strict checks (`pedantic`), and the server would have to change the value in "
        "the text; give that value yourself."
    ),
    10158: (
        "A message with the same id is being stored at this moment; wait for its acknowledgement, or send "
        "again later, which tells that it is a duplicate."
    ),
    10159: "The consumer has a policy of priorities but no group; set `priority_groups`.",
    10160: (
        "The pull names a group that the consumer does not have, or none where it needs one; name one of "
        "the consumer's `priority_groups`."
    ),
    10161: "The name of a priority group is empty; give it a name.",
    10162: (
        "The name of a priority group is too long or has other characters; use at most 16 of those in the "
        "text."
    ),
    10163: (
        "Another message for the same subject is on its way through the cluster; wait a moment, read the "
        "last sequence, and publish again."
    ),
    10164: (
        "The last sequence of the stream, or of the subject, is another one than the publisher of a batch "
        "expected; read it and decide anew."
    ),
    10165: (
        "The time to live of the message cannot be read or is shorter than a second; give a duration such "
        "as `5m`, a number of seconds, or `never`."
    ),
    10166: (
        "The message has a time to live, but the stream does not allow that; set `allow_msg_ttl` (`headrace "
        "stream edit --allow msg-ttl`), which cannot be undone."
    ),
    10167: (
        "The stream has more publications waiting than it takes; wait and publish again, with fewer on "
        "their way at once."
    ),
    10168: (
        "The message has an increment, but the stream counts nothing; publish without `Nats-Incr`, or make "
        "a stream with `allow_msg_counter`."
    ),
    10169: (
        "The stream counts, and the message has no increment; send the header `Nats-Incr` with a number "
        "such as +1."
    ),
    10170: "A message that counts has a body; send the increment in its header and no body.",
    10171: (
        "The increment is no whole number with a sign, or stands beside a header that a counter does not "
        "take; send `Nats-Incr` alone, such as +1 or -5."
    ),
    10172: (
        "The last message of the subject is no sum that can be added to; look at it with `headrace stream "
        "get --last-for`, and purge the subject to begin anew."
    ),
    10173: "A mirror copies sums and does not add; leave `allow_msg_counter` out of the mirror.",
    10174: (
        "The message is part of an atomic batch, which the stream does not allow; set `allow_atomic` "
        "(`headrace stream edit --allow atomic`)."
    ),
    10175: "A message of an atomic batch has no number in it; send `Nats-Batch-Sequence`, from 1 on.",
    10176: (
        "The atomic batch is given up, as a message of it is missing or came too late; publish all of it "
        "again under a new id."
    ),
    10177: (
        "A message of an atomic batch has a header that batches do not take, which the text names; leave it "
        "out, or publish that message alone."
    ),
    10178: "Priority groups are for pull consumers; leave them or the delivery subject out.",
    10179: "The id of an atomic batch is empty or longer than 64 characters; choose another one.",
    10180: (
        "The stream has not come as far as the request demands; wait until this replica has followed, and "
        "ask again."
    ),
    10181: (
        "The acknowledgement policy is none that the server knows; use none, all, explicit, or flow_control "
        "where the server has it."
    ),
    10182: "The replay policy is none that the server knows; use instant or original.",
    10183: (
        "The time to wait for acknowledgements is negative; set `ack_wait` to a positive duration, or leave "
        "it out."
    ),
    10184: "A pause between deliveries is negative; give positive durations in `backoff`.",
    10185: (
        "The request needs a newer API of JetStream than the server has; update the server, or leave out "
        "what is new."
    ),
    10186: (
        "A mirror copies messages and sends none by schedule; leave `allow_msg_schedules` out of the mirror."
    ),
    10187: (
        "A stream with sources sends no messages by schedule; leave `allow_msg_schedules` or the sources out."
    ),
    10188: (
        "The message has a schedule, but the stream does not allow that; set `allow_msg_schedules` "
        "(`headrace stream edit --allow schedules`)."
    ),
    10189: (
        "The schedule of the message cannot be read; use `@at TIME`, `@every DURATION` or a cron line with "
        "six fields."
    ),
    10190: (
        "The target of a scheduled message is missing, has wildcards, is no subject of the stream, or is "
        "that of the schedule; correct `Nats-Schedule-Target`."
    ),
    10191: (
        "The time to live of what a schedule sends cannot be read; give a duration such as `5m` in "
        "`Nats-Schedule-TTL`."
    ),
    10192: "A message with a schedule replaces the last one of its subject; send `Nats-Rollup: sub` or none.",
    10193: (
        "A message names the subject whose last sequence is expected, but not the sequence; send "
        "`Nats-Expected-Last-Subject-Sequence`, too."
    ),
    10194: (
        "The server cannot run the stream, as the text says, often because a newer server has written it; "
        "update the server."
    ),
    10195: (
        "The server cannot run the consumer, as the text says, often because a newer server has written it; "
        "update the server."
    ),
    10196: (
        "The consumer has priority groups but no policy for them; set `priority_policy`, or leave the "
        "groups out."
    ),
    10197: (
        "A time to stay pinned belongs to the policy of pinned clients; set `priority_policy` to "
        "pinned_client, or leave `priority_timeout` out."
    ),
    10198: "A mirror takes no publications, so no batches either; leave `allow_atomic` out of the mirror.",
    10199: (
        "The atomic batch has more messages than the server takes; publish at most as many as the text says "
        "in one batch."
    ),
    10200: (
        "The last message of an atomic batch has another commit than 1 or `eob`; correct `Nats-Batch-Commit`."
    ),
    10201: (
        "Two messages of an atomic batch, or one of it and a stored one, have the same id; publish it with "
        "other ids, or not again."
    ),
    10202: (
        "Another server is being added to or removed from the cluster; wait until that is done, and ask "
        "again."
    ),
    10203: (
        "The source of a scheduled message has wildcards, is no subject of the stream, or is that of the "
        "schedule or its target; correct `Nats-Schedule-Source`."
    ),
    10204: (
        "The consumer cannot begin anew at this place for the reason in the text; choose a sequence that "
        "its settings allow."
    ),
    10205: (
        "The message is part of a batch of fast publishing, which the stream does not allow; set "
        "`allow_batched` (`headrace stream edit --allow fast`)."
    ),
    10206: (
        "The reply subject of a message in a batch of fast publishing cannot be read; use a client that "
        "knows this protocol."
    ),
    10207: "The id of a batch of fast publishing is empty or longer than 64 characters; choose another one.",
    10208: (
        "The server does not know this batch of fast publishing, as it was given up or the stream has a new "
        "leader; begin a new one behind what was acknowledged."
    ),
    10209: "A mirror takes no publications, so no batches either; leave `allow_batched` out of the mirror.",
    10210: (
        "There are as many atomic batches open as the stream or the server allows; finish some, wait, and "
        "publish again."
    ),
    10211: (
        "There are as many batches of fast publishing open as the stream or the server allows; finish some, "
        "wait, and publish again."
    ),
    10212: (
        "The headers `Nats-Scheduler` and `Nats-Schedule-Next` are for the server, or for a message that "
        "ends a schedule; name its subject in the one, and `purge` in the other."
    ),
    10213: (
        "The consumer that a mirror is to read by has no valid name or delivery subject, or stands beside a "
        "place to start; correct it, or leave the start out."
    ),
    10214: (
        "The consumer that a mirror reads by acknowledges by flow control; set its `ack_policy` to "
        "flow_control."
    ),
    10215: (
        "The consumer that a source is to read by has no valid name or delivery subject, or stands beside a "
        "place to start; correct it, or leave the start out."
    ),
    10216: "Two sources read by the same consumer; give each its own.",
    10217: (
        "The consumer that a source reads by acknowledges by flow control; set its `ack_policy` to "
        "flow_control."
    ),
    10218: (
        "Only push consumers acknowledge by flow control; set a delivery subject, or another `ack_policy`."
    ),
    10219: "A consumer that acknowledges by flow control needs it; set `flow_control` and `idle_heartbeat`.",
    10220: (
        "A consumer that acknowledges by flow control needs a limit of what is on its way; set "
        "`max_ack_pending`."
    ),
    10221: (
        "A consumer that acknowledges by flow control delivers nothing again after a time; leave `ack_wait` "
        "out."
    ),
    10222: "A consumer that acknowledges by flow control delivers everything once; leave `max_deliver` out.",
    10223: (
        "The time zone of a schedule is not known; give one such as Europe/Berlin, which the server's "
        "machine has, to a cron line."
    ),
    10224: (
        "The cluster could not be given a new set of servers for the reason in the text; see which servers "
        "are up, and ask again."
    ),
    10225: (
        "A mirror or source asked for an earlier stream of the same name; make the mirror or source anew if "
        "it is to follow the stream that is there now."
    ),
    10226: (
        "The stream is being moved or given other replicas already; wait until that is done (`headrace "
        "stream info`), and ask again."
    ),
    10227: (
        "The header that says which stream a message was copied from may be set by the server only; leave "
        "`Nats-Stream-Source` out."
    ),
}
