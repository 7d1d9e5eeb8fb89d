"""Configuration texts about JetStream with both verdicts on each."""

from __future__ import annotations

from typing import Final

from conf_verdicts import Case, Verdict, cases

JETSTREAM_CASES: Final[list[Case]] = [
    *cases(
        Verdict.ACCEPT,
        jetstream_off="jetstream: false",
        jetstream_disabled="jetstream: disabled",
        jetstream="jetstream: true",
        jetstream_yes="jetstream: yes",
        jetstream_enabled="jetstream: Enabled",
        jetstream_enable="jetstream: enable",
        jetstream_map="jetstream {}",
        jetstream_map_off="jetstream { enabled: false, store_dir: x }",
        jetstream_store="jetstream { store_dir: x }",
        jetstream_store_other_names="jetstream { store: x }",
        jetstream_store_above="store_dir: x\njetstream: true",
        jetstream_store_alone="storedir: x",
        jetstream_sizes="jetstream { max_memory_store: 1GB, max_file_store: 10GB }",
        jetstream_sizes_as_texts='jetstream { max_mem_store: "512M", max_file: "10T" }',
        jetstream_sizes_zero="jetstream { max_mem: 0, max_file: 0 }",
        jetstream_sizes_negative="jetstream { max_mem: -5, max_file: -1 }",
        jetstream_sync_always="jetstream { sync_interval: always }",
        jetstream_sync_often='jetstream { sync: "30s" }',
        jetstream_domain="jetstream { domain: hub }",
        jetstream_lenient="jetstream { strict: false }",
        jetstream_key='jetstream { key: "s3cret" }',
        jetstream_key_and_cipher="jetstream { ek: abc, cipher: AES }",
        jetstream_key_from_environment="KEY: s3cret\njetstream { encryption_key: $KEY }",
        jetstream_previous_key="jetstream { key: a, prev_key: b }",
        jetstream_previous_key_short="jetstream { key: a, prev_ek: b, cipher: aes }",
        jetstream_previous_key_long='jetstream { encryption_key: a, prev_encryption_key: "" }',
        jetstream_tag='jetstream { unique_tag: "az:" }',
        jetstream_limits=(
            "jetstream { limits { max_ack_pending: 1, max_ha_assets: 2, max_request_batch: 3,"
            ' duplicate_window: "1m", default_max_consumers: 5,'
            ' batch { max_inflight_per_stream: 1, max_inflight_total: 2, max_msgs: 3, timeout: "1s" } } }'
        ),
        jetstream_limits_negative="jetstream { limits { max_ack_pending: -1 } }",
        jetstream_queues=(
            "jetstream { request_queue_limit: -1, info_queue_limit: 5, max_buffered_msgs: 10,"
            ' max_buffered_size: "5M" }'
        ),
        jetstream_of_clusters=(
            'jetstream { meta_compact: 5, meta_compact_size: "1M", meta_compact_sync: true,'
            ' max_outstanding_catchup: "3M", extension_hint: no_extend, max_concurrent_io: 8 }'
        ),
        account_jetstream="accounts { A { jetstream: true } }",
        account_jetstream_word="accounts { A { jetstream: enabled }, B { jetstream: disable } }",
        account_jetstream_map=(
            "accounts { A { jetstream { max_mem: 1, max_file: 2, max_streams: 3, max_consumers: 4,"
            " max_ack_pending: 5, max_bytes_required: true, mem_max_stream_bytes: 6,"
            " disk_max_stream_bytes: 7, cluster_traffic: owner } } }"
        ),
        account_jetstream_other_names=(
            "accounts { A { jetstream { memory: 1MB, disk: 2GB, streams: -1, consumers: 4,"
            " max_stream_bytes: false, memory_max_stream_bytes: 6, store_max_stream_bytes: 7 } } }"
        ),
    ),
    *cases(
        Verdict.REJECT,
        jetstream_word=('jetstream: "true"', "expected 'enabled' or 'disabled'"),
        jetstream_number=("jetstream: 1", "must be a map"),
        jetstream_list=("jetstream: [a]", "must be a map"),
        jetstream_unknown=(
            "jetstream { stor_dir: x }",
            'unknown field "stor_dir" (did you mean "store_dir"?)',
        ),
        jetstream_enabled_text=('jetstream { enabled: "true" }', "must be true or false"),
        jetstream_two_directories=("jetstream { store_dir: x }\nstore_dir: y", "Duplicate 'store_dir'"),
        jetstream_size_unit=('jetstream { max_mem: "1GB" }', "sizes defined as strings must end in"),
        jetstream_size_text=('jetstream { max_mem: "xG" }', "is no size"),
        jetstream_size_huge=('jetstream { max_mem: "99999999999999999999G" }', "is no size"),
        jetstream_size_fraction=("jetstream { max_mem: 1.5 }", "must be an integer"),
        jetstream_cipher=("jetstream { key: a, cipher: rot13 }", "unknown cipher type"),
        jetstream_strict_text=('jetstream { strict: "x" }', "must be true or false"),
        jetstream_window_number=("jetstream { limits { duplicate_window: 5 } }", "must be a duration"),
        jetstream_limit_text=('jetstream { limits { max_ack_pending: "x" } }', "must be an integer"),
        jetstream_limits_list=("jetstream { limits: [] }", "must be a map"),
        jetstream_limit_unknown=("jetstream { limits { max_consumers: 5 } }", "unknown field"),
        jetstream_compact_negative=("jetstream { meta_compact: -1 }", "cannot be negative"),
        jetstream_io=("jetstream { max_concurrent_io: 3 }", "must lie between 4 and 8192"),
        jetstream_sync_word=("jetstream { sync: sometimes }", "is not a duration"),
        jetstream_sync_always_key=("jetstream { sync_always: true }", "unknown field"),
        account_jetstream_word_unknown=("accounts { A { jetstream: on_demand } }", "expected 'enabled'"),
        account_jetstream_unknown=("accounts { A { jetstream { max_disc: 1 } } }", "unknown field"),
        account_jetstream_size=('accounts { A { jetstream { max_mem: "1M" } } }', "must be an integer"),
        account_jetstream_traffic=("accounts { A { jetstream { cluster_traffic: both } } }", "'system' or"),
    ),
    *cases(
        Verdict.START,
        jetstream_domain_with_dot=("jetstream { domain: a.b }", "invalid domain name"),
        jetstream_domain_with_wildcard=('jetstream { domain: "*" }', "invalid domain name"),
        jetstream_of_system_account=(
            "jetstream: on\naccounts { A { jetstream: on } }\nsystem_account: A",
            "JetStream cannot be enabled on the system account",
        ),
    ),
    *cases(
        Verdict.LENIENT,
        jetstream_sync_group="jetstream { sync: group }",
        jetstream_sync_interval="jetstream { sync: interval }",
        jetstream_sync_never="jetstream { sync: never }",
    ),
    *cases(
        Verdict.STRICTER,
        jetstream_sync_negative=('jetstream { sync: "-5s" }', "cannot be negative"),
    ),
    *cases(
        Verdict.UNSUPPORTED,
        jetstream_tpm="jetstream { tpm { keys_file: x } }",
    ),
]
