# tests/unit

check_PROGRAMS += test_args
TESTS += test_args
test_args_SOURCES = tests/unit/test_args.c tests/tap.h
test_args_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS)
test_args_LDADD = libsbxworker.a libsbxreport.a libsbxtools.a libsbx.a $(JSON_LIBS) -lm

check_PROGRAMS += test_conf
TESTS += test_conf
test_conf_SOURCES = tests/unit/test_conf.c tests/tap.h
test_conf_LDADD = libsbx.a

check_PROGRAMS += test_json
TESTS += test_json
test_json_SOURCES = tests/unit/test_json.c tests/tap.h
test_json_CPPFLAGS = $(AM_CPPFLAGS)
test_json_LDADD = libsbx.a

check_PROGRAMS += test_view
TESTS += test_view
test_view_SOURCES = tests/unit/test_view.c tests/tap.h sbxd/worker/view.c \
	sbxd/worker/view.h
test_view_CPPFLAGS = $(AM_CPPFLAGS)
test_view_LDADD = libsbx.a

check_PROGRAMS += test_base test_log
TESTS += test_base test_log
test_base_SOURCES = tests/unit/test_base.c tests/tap.h
test_base_CPPFLAGS = $(AM_CPPFLAGS)
test_base_LDADD = libsbx.a
test_log_SOURCES = tests/unit/test_log.c tests/tap.h
test_log_CPPFLAGS = $(AM_CPPFLAGS)
test_log_LDADD = libsbx.a

check_PROGRAMS += test_secret
TESTS += test_secret
test_secret_SOURCES = tests/unit/test_secret.c tests/tap.h
test_secret_CPPFLAGS = $(AM_CPPFLAGS)
test_secret_LDADD = libsbx.a

check_PROGRAMS += test_mask
TESTS += test_mask
test_mask_SOURCES = tests/unit/test_mask.c tests/tap.h
test_mask_CPPFLAGS = $(AM_CPPFLAGS)
test_mask_LDADD = libsbx.a

check_PROGRAMS += test_member
TESTS += test_member
test_member_SOURCES = tests/unit/test_member.c tests/tap.h \
	sbxd/front/member.c sbxd/front/member.h
test_member_CPPFLAGS = $(AM_CPPFLAGS)
test_member_LDADD = libsbx.a

check_PROGRAMS += test_tasks_kept
TESTS += test_tasks_kept
test_tasks_kept_SOURCES = tests/unit/test_tasks_kept.c tests/tap.h
test_tasks_kept_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(JSON_CFLAGS)
test_tasks_kept_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sbx_mono_ns
test_tasks_kept_LDADD = libsbxfront.a libsbxtools.a libsbxev.a libsbx.a \
	$(EVENT_LIBS) $(JSON_LIBS)

check_PROGRAMS += test_cgroup
TESTS += test_cgroup
test_cgroup_SOURCES = tests/unit/test_cgroup.c tests/tap.h
test_cgroup_LDADD = libsbx.a

check_PROGRAMS += test_image
TESTS += test_image
test_image_SOURCES = tests/unit/test_image.c tests/tap.h
test_image_CPPFLAGS = $(AM_CPPFLAGS)
test_image_LDADD = libsbx.a

check_PROGRAMS += test_http
TESTS += test_http
test_http_SOURCES = tests/unit/test_http.c tests/tap.h
test_http_CPPFLAGS = $(AM_CPPFLAGS)
test_http_LDADD = libsbx.a

# the HTTP parser beside another, where that is installed
check_PROGRAMS += test_http_differ
TESTS += test_http_differ
test_http_differ_SOURCES = tests/unit/test_http_differ.c tests/tap.h
test_http_differ_CPPFLAGS = $(AM_CPPFLAGS) $(HTTP_PARSER_CFLAGS)
test_http_differ_LDADD = libsbx.a $(HTTP_PARSER_LIBS)

# what the egress proxy decides by
check_PROGRAMS += test_egress
TESTS += test_egress
test_egress_SOURCES = tests/unit/test_egress.c tests/tap.h
test_egress_CPPFLAGS = $(AM_CPPFLAGS)
test_egress_LDADD = libsbxegress.a libsbxgit.a libsbx.a

# what the proxy asks name servers, and takes of their answers
check_PROGRAMS += test_dns
TESTS += test_dns
test_dns_SOURCES = tests/unit/test_dns.c tests/tap.h sbx-proxy/dns.c \
	sbx-proxy/dns.h
test_dns_CPPFLAGS = $(AM_CPPFLAGS)
test_dns_LDADD = libsbx.a

# the certificates of sandboxes
check_PROGRAMS += test_ca
TESTS += test_ca
test_ca_SOURCES = tests/unit/test_ca.c tests/tap.h sbx-proxy/ca.c \
	sbx-proxy/ca.h sbx-proxy/issue.c sbx-proxy/issue.h sbx-proxy/jks.c \
	sbx-proxy/jks.h sbx-proxy/roots.c
test_ca_CPPFLAGS = $(AM_CPPFLAGS) $(TLS_CFLAGS)
test_ca_LDADD = libsbxegress.a libsbx.a $(TLS_LIBS)

check_PROGRAMS += test_egress_env
TESTS += test_egress_env
test_egress_env_SOURCES = tests/unit/test_egress_env.c tests/tap.h
test_egress_env_CPPFLAGS = $(AM_CPPFLAGS)
test_egress_env_LDADD = libsbx.a

# what it takes out of heads, and how it frames bodies
check_PROGRAMS += test_strip
TESTS += test_strip
test_strip_SOURCES = tests/unit/test_strip.c tests/tap.h sbx-proxy/body.c \
	sbx-proxy/body.h sbx-proxy/strip.c sbx-proxy/strip.h
test_strip_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS)
test_strip_LDADD = libsbx.a $(EVENT_LIBS)

# requests and their answers, with all that is around the proxy played
check_PROGRAMS += test_exchange
TESTS += test_exchange
test_exchange_SOURCES = tests/unit/test_exchange.c tests/tap.h \
	sbx-proxy/body.c sbx-proxy/body.h sbx-proxy/budget.c \
	sbx-proxy/budget.h sbx-proxy/client.c sbx-proxy/courier.c \
	sbx-proxy/courier.h \
	sbx-proxy/exchange.h sbx-proxy/http.c sbx-proxy/relay.c \
	sbx-proxy/request.c sbx-proxy/strip.c sbx-proxy/strip.h \
	sbx-proxy/upstream.c
test_exchange_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(TLS_CFLAGS)
test_exchange_LDADD = libsbxegress.a libsbxgit.a libsbxev.a libsbx.a $(EVENT_LIBS) \
	$(TLS_LIBS)

# what test runners wrote, and what none of them would
check_PROGRAMS += test_report
TESTS += test_report
test_report_SOURCES = tests/unit/test_report.c tests/tap.h
test_report_CPPFLAGS = $(AM_CPPFLAGS)
test_report_LDADD = libsbxreport.a libsbx.a $(JSON_LIBS)

# edits of bytes, near misses, diffs
check_PROGRAMS += test_edit
TESTS += test_edit
test_edit_SOURCES = tests/unit/test_edit.c tests/tap.h sbxd/worker/edit.h \
	sbxd/worker/edit_diff.c sbxd/worker/edit_near.c \
	sbxd/worker/edit_text.c
test_edit_CPPFLAGS = $(AM_CPPFLAGS)
test_edit_LDADD = libsbx.a

check_PROGRAMS += test_jwt
TESTS += test_jwt
test_jwt_SOURCES = tests/unit/test_jwt.c tests/tap.h
test_jwt_CPPFLAGS = $(AM_CPPFLAGS) $(CRYPTO_CFLAGS)
test_jwt_LDADD = libsbxbroker.a libsbxegress.a libsbx.a $(CRYPTO_LIBS)

check_PROGRAMS += test_broker_times
TESTS += test_broker_times
test_broker_times_SOURCES = tests/unit/test_broker_times.c tests/tap.h
test_broker_times_CPPFLAGS = $(AM_CPPFLAGS)
test_broker_times_LDADD = libsbxbroker.a libsbx.a $(CRYPTO_LIBS)

check_PROGRAMS += test_rules
TESTS += test_rules
test_rules_SOURCES = tests/unit/test_rules.c tests/tap.h common/base/rules.c
test_rules_CPPFLAGS = $(AM_CPPFLAGS) -DSBX_RULES_MS=1200u
test_rules_LDADD = libsbx.a

check_PROGRAMS += test_courier_parts
TESTS += test_courier_parts
test_courier_parts_SOURCES = tests/unit/test_courier_parts.c tests/tap.h
test_courier_parts_CPPFLAGS = $(AM_CPPFLAGS)
test_courier_parts_LDADD = libsbxcourier.a libsbx.a $(JSON_LIBS)

# secrets in what is added
check_PROGRAMS += test_scan
TESTS += test_scan
test_scan_SOURCES = tests/unit/test_scan.c tests/tap.h
test_scan_CPPFLAGS = $(AM_CPPFLAGS) $(PCRE2_CFLAGS)
test_scan_LDADD = libsbxscan.a libsbx.a $(PCRE2_LIBS) -lm

# the parts of a publication's judgement
check_PROGRAMS += test_publish
TESTS += test_publish
test_publish_SOURCES = tests/unit/test_publish.c tests/tap.h $(JUDGE_PUBLISH)
test_publish_CPPFLAGS = $(AM_CPPFLAGS) $(CRYPTO_CFLAGS)
test_publish_LDADD = libsbx.a $(CRYPTO_LIBS)
