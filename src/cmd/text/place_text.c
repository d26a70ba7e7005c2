/* SPDX-License-Identifier: MIT */
#include "cmd/text/place_text.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "base/escape.h"
#include "cmd/text/details_text.h"
#include "cmd/text/put_text.h"

static const char *const titles[HIST_COLUMNS] = {
	[HIST_COMM] = "Command",
	[HIST_DSO] = "Shared Object",
	[HIST_SYM] = "Symbol",
	[HIST_TID] = "    Pid:Command",
	[HIST_CPU] = "CPU",
	[HIST_SOCKET] = "Socket",
	[HIST_TIME] = "Time",
	[HIST_SRCLINE] = "Source:Line",
	[HIST_SRCFILE] = "Source File",
	[HIST_TRACE] = "Trace output",
	[HIST_STATE] = "State",
	[HIST_WAKER] = "Waker",
	[HIST_HOST] = "Host",
	[HIST_WEIGHT] = "Weight",
	[HIST_LOCAL_WEIGHT] = "Local Weight",
	[HIST_INS_LAT] = "INSTR Latency",
	[HIST_LOCAL_INS_LAT] = "Local INSTR Latency",
	[HIST_CGROUP] = "Cgroup",
	[HIST_CGROUP_ID] = "cgroup id (dev/inode)",
	[HIST_PARENT] = "Parent symbol",
	[HIST_CODE_PAGE_SIZE] = "Code Page Size",
	[HIST_ADDRESS] = "Address",
	[HIST_PARALLELISM] = "Parallelism",
	[HIST_CHILDREN] = "Children",
	[HIST_SELF] = "Overhead",
	[HIST_SELF_KERNEL] = "sys",
	[HIST_SELF_USER] = "usr",
	[HIST_SELF_GUEST_KERNEL] = "guest sys",
	[HIST_SELF_GUEST_USER] = "guest usr",
	[HIST_ON_CPU] = "on CPU",
	[HIST_BLOCKED_TIME] = "blocked",
	[HIST_RUNNABLE] = "runnable",
	[HIST_OFF_CPU] = "off CPU",
	[HIST_LATENCY] = "Latency",
	[HIST_SAMPLES] = "Samples",
	[HIST_PERIOD] = "Period",
};

const char *place_column_title(enum hist_column column)
{
	return details_text_has(column) ? details_text_title(column) : titles[column];
}

const char *place_dso_text(const struct hist_place *place)
{
	return place->dso ? dso_short_name(place->dso) : "[unknown]";
}

const char *place_parent_text(const struct hist_place *place)
{
	return place->details->parent ? place->details->parent : "[other]";
}

static int print_time(FILE *to, bool nanoseconds, uint64_t time_ns)
{
	uint64_t seconds = time_ns / 1000000000, rest = time_ns % 1000000000;

	if (nanoseconds)
		return fprintf(to, "%" PRIu64 ".%09" PRIu64, seconds, rest);
	return fprintf(to, "%" PRIu64 ".%06" PRIu64, seconds, rest / 1000);
}

static int print_symbol(FILE *to, const struct hist_place *place, int most)
{
	if (!place->symbol)
		return fprintf(to, "[%c] %-#.*" PRIx64, place->level, PLACE_ADDRESS_DIGITS, place->address);
	const char level[] = {'[', place->level, ']', ' '}, inlined[] = " (inlined)";
	put_bytes(to, level, sizeof(level));
	int taken = (int)sizeof(level) + put_padded(to, place->symbol->name, 0, most);
	if (!place->symbol->inlined)
		return taken;
	put_bytes(to, inlined, sizeof(inlined) - 1);
	return taken + (int)sizeof(inlined) - 1;
}

static uint64_t number_of(const struct hist_place *place, enum hist_column key)
{
	return place->details->numbers[key - HIST_WEIGHT];
}

static int print_field(FILE *to, const struct hist_field *field, int width)
{
	AUTO_ESCAPED shown = escaped_text(field ? field->text : "");
	int len = width ? escaped_cut(shown.text, width) : (int)strlen(shown.text);

	return fprintf(to, "%*.*s", width, len, shown.text);
}

int place_text_print(FILE *to, enum hist_column key, const struct hist_place *place, struct place_style style)
{
	int width = style.width, most = width ? width : -1;
	/* Only a width that was asked for cuts a name; -1: none. */
	int name_width = !style.cut ? -1 : width > PLACE_LEVEL_WIDTH ? width - PLACE_LEVEL_WIDTH : 0;

	if (place_is_field(key))
		return print_field(to, place->details->fields[key - HIST_FIELD], width);
	if (details_text_has(key))
		return details_text_print(to, key, place, width);
	switch (key) {
	case HIST_COMM: return put_padded(to, place->comm->text, width, most);
	case HIST_DSO: return put_padded(to, place_dso_text(place), width, most);
	case HIST_SYM: return print_symbol(to, place, name_width);
	case HIST_TID:
		width = width > PLACE_TID_WIDTH ? width - PLACE_TID_WIDTH : 0;
		return fprintf(to, "%7d:", (int)place->tid) +
		       put_padded(to, place->task->comm->text, width, style.cut ? width : -1);
	case HIST_CPU: return fprintf(to, "%.*d", width, place->cpu);
	case HIST_SOCKET: return fprintf(to, "%*.*d", width, width > 3 ? width - 3 : 0, (int)place->details->socket);
	case HIST_TIME: return print_time(to, style.nanoseconds, place->details->time_ns);
	case HIST_SRCLINE: return put_padded(to, place->details->srcline, 0, most);
	case HIST_SRCFILE: return put_padded(to, place->details->srcfile, 0, most);
	case HIST_TRACE: return put_padded(to, place->details->trace, 0, most);
	case HIST_STATE: return put_padded(to, place->details->state, 0, most);
	case HIST_WAKER: return put_padded(to, place->details->waker, 0, most);
	case HIST_HOST: return put_padded(to, place->details->host, 0, most);
	case HIST_PARENT: return put_padded(to, place_parent_text(place), width, most);
	case HIST_CGROUP_ID:
		return fprintf(to, "%" PRIu64 "/0x%" PRIx64, place->details->cgroup_device, number_of(place, key));
	case HIST_CGROUP: return put_padded(to, place->details->cgroup, 0, -1);
	case HIST_ADDRESS: return fprintf(to, "0x%-16" PRIx64, number_of(place, key));
	case HIST_PARALLELISM: return fprintf(to, "%*" PRIu64, width, number_of(place, key));
	case HIST_CODE_PAGE_SIZE: return details_text_page_size(to, number_of(place, key), width);
	case HIST_WEIGHT:
	case HIST_INS_LAT:
		return fprintf(to, "%-*" PRIu64, width, number_of(place, key) * (style.samples ? style.samples : 1));
	default: return fprintf(to, "%-*" PRIu64, width, number_of(place, key));
	}
}
