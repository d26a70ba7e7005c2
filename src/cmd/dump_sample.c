/* SPDX-License-Identifier: MIT */
#include "cmd/dump_sample.h"

#include <inttypes.h>

#include "read/session.h"

/* <asm/perf_regs.h> of x86, the names in perf's spelling. */
static const char *const x86_regs[] = {
	"AX", "BX", "CX", "DX", "SI", "DI", "BP",  "SP",  "IP",  "FLAGS", "CS",  "SS",
	"DS", "ES", "FS", "GS", "R8", "R9", "R10", "R11", "R12", "R13",   "R14", "R15",
};

static void print_chain(const struct sample *sample, FILE *to)
{
	fprintf(to, "... FP chain: nr:%" PRIu64 "\n", sample->nr_ips);
	for (uint64_t i = 0; i < sample->nr_ips; i++)
		fprintf(to, "..... %2" PRIu64 ": %016" PRIx64 "\n", i, sample->ips[i]);
}

static void print_branches(const struct sample *sample, FILE *to)
{
	fprintf(to, "... branch stack: nr:%" PRIu64 "\n", sample->branches.nr);
	for (uint64_t i = 0; i < sample->branches.nr; i++) {
		const struct perf_branch_entry *entry = &sample->branches.entries[i];
		fprintf(to, "..... %2" PRIu64 ": %016" PRIx64 " -> %016" PRIx64 " %hu cycles %s%s%s%s %x\n", i,
			(uint64_t)entry->from, (uint64_t)entry->to, (unsigned short)entry->cycles,
			entry->mispred ? "M" : " ", entry->predicted ? "P" : " ", entry->abort ? "A" : " ",
			entry->in_tx ? "T" : " ", (unsigned)entry->type);
	}
}

static const char *abi_name(uint64_t abi)
{
	return abi == PERF_SAMPLE_REGS_ABI_64 ? "64-bit" : abi == PERF_SAMPLE_REGS_ABI_32 ? "32-bit" : "unknown";
}

static void print_regs(const char *whose, const struct sample_regs *regs, FILE *to)
{
	unsigned nr = 0;

	if (!regs->regs)
		return;
	fprintf(to, "... %s regs: mask 0x%" PRIx64 " ABI %s\n", whose, regs->mask, abi_name(regs->abi));
	for (unsigned i = 0; i < 64; i++) {
		if (!(regs->mask >> i & 1))
			continue;
		const char *name = i < sizeof(x86_regs) / sizeof(x86_regs[0]) ? x86_regs[i] : "unknown";
		fprintf(to, ".... %-5s 0x%016" PRIx64 "\n", name, regs->regs[nr++]);
	}
}

static void print_read(const struct session_record *record, FILE *to)
{
	const struct perf_event_attr *attr = &record->event->attr;
	struct sample_read read;
	struct sample_value value;

	fprintf(to, "... sample_read:\n");
	if (sample_read_open(attr, record->sample.read, &read))
		return;
	bool group = attr->read_format & PERF_FORMAT_GROUP, first = true;
	uint64_t nr = read.nr;
	while (sample_read_next(&read, &value)) {
		if (first) {
			if (attr->read_format & PERF_FORMAT_TOTAL_TIME_ENABLED)
				fprintf(to, "...... time enabled %016" PRIx64 "\n", read.enabled_ns);
			if (attr->read_format & PERF_FORMAT_TOTAL_TIME_RUNNING)
				fprintf(to, "...... time running %016" PRIx64 "\n", read.running_ns);
			if (group)
				fprintf(to, ".... group nr %" PRIu64 "\n", nr);
		}
		first = false;
		fprintf(to, "..... id %016" PRIx64 ", value %016" PRIx64, value.id, value.value);
		if (attr->read_format & 1 << 4) /* PERF_FORMAT_LOST, Linux 6.0 */
			fprintf(to, ", lost %" PRIu64, value.lost);
		fputc('\n', to);
	}
}

static void print_weight(const struct sample *sample, uint64_t type, FILE *to)
{
	if (type & PERF_SAMPLE_WEIGHT_STRUCT)
		fprintf(to, "... weight: %u,0x%x,0x%x\n", (uint32_t)sample->weight, (uint16_t)(sample->weight >> 32),
			(uint16_t)(sample->weight >> 48));
	else
		fprintf(to, "... weight: %" PRIu64 "\n", sample->weight);
}

/* One-word fields behind the arrays. */
static void print_words(const struct sample *sample, uint64_t type, FILE *to)
{
	if (type & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT))
		print_weight(sample, type, to);
	if (type & PERF_SAMPLE_DATA_SRC)
		fprintf(to, " . data_src: 0x%" PRIx64 "\n", sample->data_src);
	if (type & PERF_SAMPLE_PHYS_ADDR)
		fprintf(to, " .. phys_addr: 0x%" PRIx64 "\n", sample->phys_addr);
	if (type & PERF_SAMPLE_DATA_PAGE_SIZE)
		fprintf(to, " .. data page size: %" PRIu64 "\n", sample->data_page_size);
	if (type & PERF_SAMPLE_CODE_PAGE_SIZE)
		fprintf(to, " .. code page size: %" PRIu64 "\n", sample->code_page_size);
	if (type & PERF_SAMPLE_TRANSACTION)
		fprintf(to, "... transaction: %" PRIx64 "\n", sample->transaction);
}

void dump_sample_text(const struct session_record *record, FILE *to)
{
	const struct sample *sample = &record->sample;
	uint64_t type = sample->present;

	fprintf(to, "(IP, 0x%x): %d/%d: %#" PRIx64 " period: %" PRIu64 " addr: %#" PRIx64 "\n",
		record->view.header->misc, (int)sample->pid, (int)sample->tid, sample->ip, sample->period, sample->addr);
	if (type & PERF_SAMPLE_CALLCHAIN)
		print_chain(sample, to);
	if (type & PERF_SAMPLE_BRANCH_STACK)
		print_branches(sample, to);
	print_regs("user", &sample->user_regs, to);
	print_regs("intr", &sample->intr_regs, to);
	if (sample->user_stack.ptr) {
		/* perf tells where the size in front of the bytes is. */
		const char *size = (const char *)sample->user_stack.ptr - sizeof(uint64_t);
		fprintf(to, "... ustack: size %zu, offset 0x%zx\n", sample->user_stack.len,
			(size_t)(size - (const char *)record->view.header));
	}
	print_words(sample, type, to);
	if (type & PERF_SAMPLE_READ)
		print_read(record, to);
}
