"""Under which configurations scripts are played, and which of them are answered differently."""

from __future__ import annotations

from typing import Final

CONFIGS: Final[dict[str, str]] = {
    "": "",
    "small": "max_payload: 64\nmax_control_line: 96\nmax_subscriptions: 2\nmax_sub_tokens: 3\n",
    "users": """
        no_auth_user: guest
        authorization {
          users: [
            {user: guest, password: g, permissions: {publish: "g.>", subscribe: "g.>"}}
            {user: full, password: p}
            {user: ranged, password: p, permissions: {
              publish: {allow: ["ok.>", "svc.*"], deny: ["ok.secret", "ok.*.secret"]}
              subscribe: {
                allow: ["s.>", "_INBOX.>", "work group", "many.> g.*"], deny: ["s.no.>", "s.*.q never"]}}}
            {user: answerer, password: p, permissions: {
              publish: "only.this", subscribe: "svc.>", allow_responses: {max: 2, expires: "1m"}}}
            {user: once, password: p, permissions: {subscribe: "svc.>", allow_responses: true}}
            {user: mute, password: p, permissions: {publish: {deny: ">"}, subscribe: {deny: ">"}}}
            {user: denying, password: p, permissions: {subscribe: {deny: ["d.one", "d.*.two"]}}}
          ]
        }
        """,
    "defaults": """
        authorization {
          default_permissions: {publish: "d.>", subscribe: "d.>"}
          users: [
            {user: plain, password: p}
            {user: own, password: p, permissions: {publish: ["x", "svc"], subscribe: "x"}}
            {user: writer, password: p, permissions: {publish: "w.>"}}
            {user: empty, password: p, permissions: {}}
            {user: helper, password: p, permissions: {publish: "w.>", allow_responses: true}}
            {user: talker, password: p, permissions: {allow_responses: {max: -1, expires: "0s"}}}
          ]
        }
        """,
    "mapped": """
        mappings = {
          "from.*": "to.$1"
          "fixed": "elsewhere"
          "swap.*.*": "swapped.$2.$1"
          "part.*": "split.{{partition(3,1)}}.{{wildcard(1)}}"
        }
        authorization { users: [
          {user: full, password: p}
          {user: source, password: p, permissions: {publish: ["from.>", "fixed"], subscribe: ">"}}
          {user: target, password: p, permissions: {publish: ["to.>", "elsewhere"], subscribe: ">"}}
        ] }
        """,
    "mapped_open": 'mappings = { "from.*": "to.$1", "fixed": "elsewhere" }',
    "limited": """
        max_subscriptions: 1
        authorization { users: [
          {user: u, password: p, permissions: {subscribe: ["s.>"], publish: ["s.>"]}}
        ] }
        """,
    "hashed": """
        authorization { users: [
          {user: joe, password: "$2a$04$5fQ4s7g7.Lnccg7MxgqvjOOeibCfWzlInP1b8LBUz8ZWFnTB1S3oe"}
          {user: amy, password: plain}
        ] }
        """,
    "nkeys": """
        authorization { users: [
          {nkey: UDVEU3DD4KOFECV66VIHWEZOYX4ZKR3WV27L464SIIPOU2IUI3JCYSJF}
          {user: amy, password: plain}
        ] }
        """,
    "token": 'authorization { token: "s3cret" }',
    "accounts": """
        accounts {
          A {
            users: [
              {user: a, password: p}
              {user: answerer, password: p, permissions: {
                subscribe: "svc.>", publish: "none", allow_responses: {max: 5, expires: "1m"}}}
            ]
            exports: [
              {service: "svc.>"}
              {service: "secret", accounts: [C]}
              {service: "many", response_type: stream}
              {service: "chunks", response_type: chunked}
              {service: "of.*", account_token_position: 2}
              {service: "shared"}
              {service: "st.svc"}
              {service: "old"}
              {stream: "st.>"}
              {stream: "pt.*", account_token_position: 2}
              {stream: "two.*.*"}
              {stream: "closed.>", accounts: [C]}
            ]
            mappings: {"from.*": "st.$1", "old": "svc.echo"}
          }
          B {
            users: [
              {user: b, password: p}
              {user: narrow, password: p, permissions: {
                subscribe: {allow: ["fromA.>", "r.>"], deny: "fromA.st.no"}, publish: "my.echo"}}
            ]
            imports: [
              {service: {account: A, subject: "svc.echo"}, to: "my.echo"}
              {service: {account: A, subject: "svc.w.*"}, to: "my.w.*"}
              {service: {account: A, subject: "many"}}
              {service: {account: A, subject: "st.svc"}, to: "my.st"}
              {service: {account: A, subject: "old"}, to: "my.old"}
              {service: {account: A, subject: "chunks"}}
              {service: {account: A, subject: "of.B"}}
              {service: {account: A, subject: "shared"}, share: true}
              {stream: {account: A, subject: "st.>"}, prefix: "fromA"}
              {stream: {account: A, subject: "pt.B"}}
              {stream: {account: A, subject: "two.*.*"}, to: "swapped.$2.$1"}
            ]
            exports: [{service: "my.echo"}, {stream: "fromA.>"}]
            mappings: {"mapped": "my.echo"}
          }
          C {
            users: [{user: c, password: p}]
            imports: [
              {service: {account: A, subject: "secret"}}
              {service: {account: B, subject: "my.echo"}, to: "chained"}
              {stream: {account: A, subject: "closed.>"}, to: "open.>"}
              {stream: {account: A, subject: "st.>"}}
              {stream: {account: B, subject: "fromA.>"}, prefix: "chain"}
            ]
          }
          L {
            users: [{user: l, password: p}]
            limits: {max_connections: 1, max_subscriptions: 2, max_payload: 4}
          }
          Z { users: [{user: z, password: p}], limits: {max_connections: 0} }
          Y { users: [{user: y, password: p}], limits: {max_subscriptions: 0} }
          D {
            users: [{user: d, password: p}, {user: own, password: p, permissions: {publish: "x.>"}}]
            default_permissions: {publish: "d.>", subscribe: "d.>"}
          }
          SYS { users: [{user: s, password: p}] }
        }
        authorization { users: [{user: g, password: p}] }
        system_account: SYS
        """,
    "guest_account": """
        no_auth_user: g
        accounts {
          A { users: [{user: g, password: p, permissions: {publish: "a.>", subscribe: ">"}}] }
          L { users: [{user: l, password: p}] }
        }
        """,
    "guest_limited": """
        no_auth_user: g
        accounts { L { users: [{user: g, password: p}], limits: {max_connections: 1} } }
        """,
    "headerless": "no_header_support: true",
}
"""The configurations by the name that a script gives in brackets."""

DIFFERENCES: Final[dict[str, str]] = {
    "sub_too_many_tokens_text": "the subject is not quoted in this error text",
    "info_from_client_wrong_type": "no client sends INFO: the types of its fields are not looked at",
    "connect_deep_nesting": "JSON nested a thousand deep is refused",
}
"""Scripts answered differently, and how (docs/divergences.md says why). Each is expected to differ: a row
that no longer does must go."""
