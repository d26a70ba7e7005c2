/* SPDX-License-Identifier: MIT */
/* term: what stands between the slashes of an event: "period=1000,name=tick,call-graph=fp". Private to this
 * room. */
#pragma once

struct event;
struct parse;
struct pmu;

enum term_host {
	TERM_HOST_SYMBOLIC,   /* behind a name, a raw number or TYPE:CONFIG */
	TERM_HOST_TRACEPOINT, /* takes few: nothing of the attr's config, period or name */
	TERM_HOST_PMU,        /* also the PMU's own terms, and the names of its events */
};

/* Reads terms up to the closing '/', which it takes too, into the event. `pmu`: with TERM_HOST_PMU, else
 * NULL. */
int term_parse_list(struct parse *parse, enum term_host host, const struct pmu *pmu, struct event *event);

/* Reads the terms of a named event of the PMU, as sysfs has them. Complaints are at the columns of that text.
 */
int term_parse_alias(const char *terms, const struct pmu *pmu, struct event *event, struct parse *parse);
