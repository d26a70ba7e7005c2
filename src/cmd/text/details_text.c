/* SPDX-License-Identifier: MIT */
#include "cmd/text/details_text.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "cmd/text/memory_text.h"
#include "cmd/text/put_text.h"

enum { ADDRESS_WIDTH = 16, LEVEL_WIDTH = 4 /* "[.] " */, UNKNOWN_WIDTH = LEVEL_WIDTH + 2 + ADDRESS_WIDTH };

static const char *const end_titles[HIST_WEIGHT - HIST_DSO_FROM] = {
	"Source Shared Object", "Source Symbol", "Source Address", "From Source:Line",
	"Target Shared Object", "Target Symbol", "Target Address", "To Source:Line",
	"Data Object",          "Data Symbol",   "Data Cacheline", "Code Symbol",
};

static const char *const number_titles[HIST_KEYS - HIST_SYM_SIZE] = {
	"Symbol size",
	"DSO size",
	"Transaction                ",
	"Branch Mispredicted",
	"Transaction abort",
	"Branch in transaction",
	"Basic Block Cycles",
	"Locked",
	"TLB access",
	"Memory access",
	"Snoop",
	"Blocked",
	"Data Physical Address",
	"Data Page Size",
};

static bool is_end(enum hist_column key)
{
	return key >= HIST_DSO_FROM && key < HIST_WEIGHT;
}

bool details_text_has(enum hist_column key)
{
	return is_end(key) || (key >= HIST_SYM_SIZE && key < HIST_KEYS);
}

const char *details_text_title(enum hist_column key)
{
	return is_end(key) ? end_titles[key - HIST_DSO_FROM] : number_titles[key - HIST_SYM_SIZE];
}

static size_t shown_width(const char *text)
{
	AUTO_ESCAPED shown = escaped_text(text);

	return (size_t)shown.len;
}

static size_t end_width(enum hist_column key, const struct hist_place_end *end, size_t unknown_object)
{
	size_t name = end->symbol ? shown_width(end->symbol->name) : 0;

	switch (key) {
	case HIST_DSO_FROM:
	case HIST_DSO_TO: return end->symbol ? shown_width(dso_short_name(end->dso)) : unknown_object;
	case HIST_DSO_DATA: return end->dso ? shown_width(dso_short_name(end->dso)) : unknown_object;
	case HIST_SYM_FROM:
	case HIST_SYM_TO: return end->symbol ? LEVEL_WIDTH + name : UNKNOWN_WIDTH;
	case HIST_ADDRESS_FROM:
	case HIST_ADDRESS_TO: return end->symbol ? 0 : UNKNOWN_WIDTH;
	case HIST_SRCLINE_FROM:
	case HIST_SRCLINE_TO: return shown_width(end->srcline);
	case HIST_CACHE_LINE: return end->symbol ? name + UNKNOWN_WIDTH + 1 : UNKNOWN_WIDTH;
	default: return name + UNKNOWN_WIDTH; /* of data and code, with the distance from the symbol */
	}
}

size_t details_text_width(enum hist_column key, const struct hist_details *details, size_t unknown_object)
{
	if (is_end(key))
		return end_width(key, &details->ends[hist_end_of(key)], unknown_object);
	switch (key) {
	case HIST_TRANSACTION: return details->numbers[key - HIST_WEIGHT] ? MEMORY_TEXT_TRANSACTION_WIDTH : 0;
	case HIST_TLB: return 22;
	case HIST_MEMORY: return 24;
	case HIST_SNOOP: return 12;
	case HIST_BLOCKED: return 10;
	case HIST_PHYSICAL:
	case HIST_DATA_PAGE_SIZE: return UNKNOWN_WIDTH;
	default: return 0;
	}
}

static int print_unknown(FILE *to, char level, uint64_t address)
{
	return fprintf(to, "[%c] %-#.*" PRIx64, level, ADDRESS_WIDTH, address);
}

/* The symbol, and how far behind its start: always of data, of code where that is anything. */
static int print_place(FILE *to, const struct hist_place_end *end, uint64_t address, bool always, int most)
{
	if (!end->symbol)
		return print_unknown(to, (char)end->level, address);
	int taken = fprintf(to, "[%c] ", (char)end->level);
	taken += put_padded(to, end->symbol->name, 0, most);
	if (address < end->symbol->start) /* the start of its cache line */
		return taken + fprintf(to, "-0x%" PRIx64, end->symbol->start - address);
	if (always || address != end->symbol->start)
		taken += fprintf(to, "+0x%" PRIx64, address - end->symbol->start);
	return taken;
}

static int print_end(FILE *to, enum hist_column key, const struct hist_place_end *end, int width)
{
	int name_width = !width ? -1 : width > LEVEL_WIDTH ? width - LEVEL_WIDTH : 0, most = width ? width : -1, taken;

	switch (key) {
	case HIST_DSO_FROM:
	case HIST_DSO_TO:
	case HIST_DSO_DATA: return put_padded(to, end->dso ? dso_short_name(end->dso) : "[unknown]", width, most);
	case HIST_SYM_FROM:
	case HIST_SYM_TO:
		if (!end->symbol)
			return print_unknown(to, (char)end->level, end->address);
		taken = fprintf(to, "[%c] ", (char)end->level);
		return taken + put_padded(to, end->symbol->name, 0, name_width);
	case HIST_ADDRESS_FROM:
	case HIST_ADDRESS_TO: return print_place(to, end, end->address, false, name_width);
	case HIST_SRCLINE_FROM:
	case HIST_SRCLINE_TO: return put_padded(to, end->srcline, 0, most);
	case HIST_CACHE_LINE: return print_place(to, end, end->address & ~UINT64_C(63), true, -1);
	default:
		if (!end->symbol) /* as perf: in memory, not in the object */
			return print_unknown(to, (char)end->level, end->ip);
		return print_place(to, end, end->address, key == HIST_SYM_DATA, name_width);
	}
}

int details_text_page_size(FILE *to, uint64_t bytes, int width)
{
	static const char units[] = "BKMG";
	char text[32] = "N/A";
	unsigned unit = 0;

	for (; units[unit + 1] && bytes / 1024 > 1; bytes /= 1024)
		unit++;
	if (bytes)
		snprintf(text, sizeof(text), "%" PRIu64 "%c", bytes, units[unit]);
	return fprintf(to, "%-*s", width, text);
}

static const char *prediction(uint64_t bits)
{
	return bits & 1 ? "N" : bits & 2 ? "Y" : "N/A";
}

static int print_memory(FILE *to, enum hist_column key, uint64_t number, int width)
{
	AUTO_BUF struct buf text = {0};

	switch (key) {
	case HIST_LOCKED: memory_text_lock(number, &text); break;
	case HIST_TLB: memory_text_tlb(number, &text); break;
	case HIST_MEMORY: memory_text_level(number, &text); break;
	case HIST_SNOOP: memory_text_snoop(number, &text); break;
	case HIST_BLOCKED: memory_text_blocked(number, &text); break;
	default: memory_text_transaction(number, &text); break;
	}
	return fprintf(to, "%-*s", width, buf_text(&text));
}

int details_text_print(FILE *to, enum hist_column key, const struct hist_place *place, int width)
{
	const struct hist_details *details = place->details;

	if (is_end(key)) {
		struct hist_place_end end = details->ends[hist_end_of(key)];
		if (key == HIST_SYM_DATA) /* as perf: that of the code */
			end.level = (uint8_t)place->level;
		return print_end(to, key, &end, width);
	}
	uint64_t number = details->numbers[key - HIST_WEIGHT];

	switch (key) {
	case HIST_SYM_SIZE:
		if (!place->symbol)
			return fprintf(to, "%*s", width, "unknown");
		return fprintf(to, "%*" PRIu64, width, number);
	case HIST_DSO_SIZE:
		if (!place->dso)
			return fprintf(to, "%*s", width, "unknown");
		return fprintf(to, "%*" PRIu64, width, number);
	case HIST_MISPREDICTED: return put_padded(to, prediction(number), width, -1);
	case HIST_ABORTED: return fprintf(to, "%-*s", width, number ? "A" : ".");
	case HIST_IN_TRANSACTION: return fprintf(to, "%-*s", width, number ? "T" : ".");
	case HIST_CYCLES:
		if (!number)
			return fprintf(to, "%-*s", width, "-");
		return fprintf(to, "%-*" PRIu64, width, number);
	case HIST_PHYSICAL: return print_unknown(to, place->level, number);
	case HIST_DATA_PAGE_SIZE: return details_text_page_size(to, number, width);
	default: return print_memory(to, key, number, width);
	}
}
