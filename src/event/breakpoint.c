/* SPDX-License-Identifier: MIT */
/* breakpoint = "mem" ":" ADDRESS [ "/" LENGTH ] [ ":" ("r" | "w" | "x")… ] [ ":" letters ] */
#include <errno.h>
#include <linux/hw_breakpoint.h>

#include "event/event.h"
#include "event/grammar.h"
#include "event/list.h"

/* Letters of r w x into HW_BREAKPOINT_*; false when it is something else. */
static bool read_access(const struct token *word, uint32_t *ret)
{
	uint32_t access = 0;

	for (size_t i = 0; i < word->len; i++) {
		char c = word->text[i];
		uint32_t bit = c == 'r'   ? HW_BREAKPOINT_R
			       : c == 'w' ? HW_BREAKPOINT_W
			       : c == 'x' ? HW_BREAKPOINT_X
					  : 0;
		if (!bit || access & bit)
			return false;
		access |= bit;
	}
	*ret = access;
	return access != 0;
}

int grammar_breakpoint(struct grammar *g, size_t start)
{
	__attribute__((cleanup(event_fini))) struct event event = list_new_event(PERF_TYPE_BREAKPOINT, 0);
	uint64_t address, len = 0;
	uint32_t access = HW_BREAKPOINT_RW;

	parse_take(&g->parse);
	if (!parse_at(&g->parse, TOKEN_WORD) || parse_number(&g->parse.token, &address) < 0)
		return parse_expected(&g->parse, "an address");
	parse_take(&g->parse);
	if (parse_accept(&g->parse, TOKEN_SLASH)) {
		if (!parse_at(&g->parse, TOKEN_WORD) || parse_number(&g->parse.token, &len) < 0)
			return parse_expected(&g->parse, "a length in bytes");
		parse_take(&g->parse);
	}
	if (parse_at(&g->parse, TOKEN_COLON)) {
		struct parse before = g->parse;
		parse_take(&g->parse);
		if (parse_at(&g->parse, TOKEN_WORD) && read_access(&g->parse.token, &access))
			parse_take(&g->parse);
		else
			g->parse = before;
	}
	event.attr.bp_addr = address;
	event.attr.bp_type = access;
	/* perf_event_open(2): an execution breakpoint has the length of a long. */
	event.attr.bp_len = len ? len : access == HW_BREAKPOINT_X ? sizeof(long) : HW_BREAKPOINT_LEN_4;
	int err = grammar_modifiers(g, &event);
	return err < 0 ? err : grammar_add(g, &event, start);
}
