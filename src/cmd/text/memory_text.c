/* SPDX-License-Identifier: MIT */
#include "cmd/text/memory_text.h"

#include <inttypes.h>
#include <linux/perf_event.h>

#include "base/buf.h"

#define NR(array) (sizeof(array) / sizeof((array)[0]))

/* The words of the bits that are set, " or " between them; `nr_before`: words that stand there already. */
static unsigned put_bits(uint64_t bits, const char *const words[], size_t nr, unsigned nr_before, struct buf *out)
{
	for (size_t i = 0; i < nr; i++)
		if (bits >> i & 1)
			buf_printf(out, "%s%s", nr_before++ ? " or " : "", words[i]);
	return nr_before;
}

void memory_text_operation(uint64_t data_src, struct buf *out)
{
	static const char *const words[] = {"N/A", "LOAD", "STORE", "PFETCH", "EXEC"};
	union perf_mem_data_src source = {.val = data_src};

	for (size_t i = 0; i < NR(words); i++)
		if (source.mem_op >> i & 1) {
			buf_put_text(out, words[i]);
			return;
		}
	buf_put_text(out, "No");
}

/* Newer than <linux/perf_event.h> of Debian 12 names them. */
static const char *level_number(unsigned number)
{
	switch (number) {
	case 0x09: return "CXL";
	case 0x0a: return "I/O";
	case 0x0b: return "Any cache";
	case 0x0c: return "LFB/MAB";
	case 0x0d: return "RAM";
	case 0x0e: return "PMEM";
	case 0x0f: return "N/A";
	default: return NULL;
	}
}

void memory_text_level(uint64_t data_src, struct buf *out)
{
	static const char *const levels[] = {
		"N/A",
		"HIT",
		"MISS",
		"L1",
		"LFB/MAB",
		"L2",
		"L3",
		"Local RAM",
		"Remote RAM (1 hop)",
		"Remote RAM (2 hops)",
		"Remote Cache (1 hop)",
		"Remote Cache (2 hops)",
		"I/O",
		"Uncached",
	};
	static const char *const hops[] = {"N/A", "core, same node", "node, same socket", "socket, same board",
					   "board"};
	union perf_mem_data_src source = {.val = data_src};
	size_t start = out->len;
	unsigned nr = 0;

	if (source.mem_remote)
		buf_put_text(out, "Remote ");
	if (source.mem_hops)
		buf_printf(out, "%s ", source.mem_hops < NR(hops) ? hops[source.mem_hops] : "?");
	else
		nr = put_bits(source.mem_lvl & ~(uint64_t)(PERF_MEM_LVL_HIT | PERF_MEM_LVL_MISS), levels, NR(levels), 0,
			      out);
	if (source.mem_lvl_num) {
		const char *name = level_number(source.mem_lvl_num);
		buf_put_text(out, nr ? " or " : "");
		if (name)
			buf_put_text(out, name);
		else
			buf_printf(out, "L%u", (unsigned)source.mem_lvl_num);
	}
	if (out->len == start)
		buf_put_text(out, "N/A");
	if (source.mem_lvl & PERF_MEM_LVL_HIT)
		buf_put_text(out, " hit");
	if (source.mem_lvl & PERF_MEM_LVL_MISS)
		buf_put_text(out, " miss");
}

void memory_text_snoop(uint64_t data_src, struct buf *out)
{
	static const char *const words[] = {"N/A", "None", "Hit", "Miss", "HitM"}, *const more[] = {"Fwd", "Peer"};
	union perf_mem_data_src source = {.val = data_src};
	unsigned nr = put_bits(source.mem_snoop, words, NR(words), 0, out);

	if (!put_bits(source.mem_snoopx, more, NR(more), nr, out))
		buf_put_text(out, "N/A");
}

void memory_text_tlb(uint64_t data_src, struct buf *out)
{
	static const char *const words[] = {"N/A", "HIT", "MISS", "L1", "L2", "Walker", "Fault"};
	union perf_mem_data_src source = {.val = data_src};
	uint64_t where = source.mem_dtlb & ~(uint64_t)(PERF_MEM_TLB_HIT | PERF_MEM_TLB_MISS);

	if (!put_bits(where, words, NR(words), 0, out))
		buf_put_text(out, "N/A");
	if (source.mem_dtlb & PERF_MEM_TLB_HIT)
		buf_put_text(out, " hit");
	if (source.mem_dtlb & PERF_MEM_TLB_MISS)
		buf_put_text(out, " miss");
}

void memory_text_lock(uint64_t data_src, struct buf *out)
{
	union perf_mem_data_src source = {.val = data_src};

	buf_put_text(out, source.mem_lock & PERF_MEM_LOCK_NA       ? "N/A"
			  : source.mem_lock & PERF_MEM_LOCK_LOCKED ? "Yes"
								   : "No");
}

void memory_text_blocked(uint64_t data_src, struct buf *out)
{
	union perf_mem_data_src source = {.val = data_src};

	if (!source.mem_blk || source.mem_blk & PERF_MEM_BLK_NA) {
		buf_put_text(out, " N/A");
		return;
	}
	if (source.mem_blk & PERF_MEM_BLK_DATA)
		buf_put_text(out, " Data");
	if (source.mem_blk & PERF_MEM_BLK_ADDR)
		buf_put_text(out, " Addr");
}

void memory_text_all(uint64_t data_src, struct buf *out)
{
	static const struct {
		const char *title;
		void (*put)(uint64_t data_src, struct buf *out);
	} parts[] = {
		{"|OP ", memory_text_operation}, {"|LVL ", memory_text_level}, {"|SNP ", memory_text_snoop},
		{"|TLB ", memory_text_tlb},      {"|LCK ", memory_text_lock},  {"|BLK ", memory_text_blocked},
	};

	for (size_t i = 0; i < NR(parts); i++) {
		buf_put_text(out, parts[i].title);
		parts[i].put(data_src, out);
	}
}

void memory_text_transaction(uint64_t transaction, struct buf *out)
{
	static const struct {
		uint64_t bit;
		const char *word;
	} words[] = {
		{PERF_TXN_ELISION, "EL "},
		{PERF_TXN_TRANSACTION, "TX "},
		{PERF_TXN_SYNC, "SYNC "},
		{PERF_TXN_ASYNC, "ASYNC "},
		{PERF_TXN_RETRY, "RETRY "},
		{PERF_TXN_CONFLICT, "CON "},
		{PERF_TXN_CAPACITY_WRITE, "CAP-WRITE "},
		{PERF_TXN_CAPACITY_READ, "CAP-READ "},
	};

	for (size_t i = 0; i < NR(words); i++)
		if (transaction & words[i].bit)
			buf_put_text(out, words[i].word);
	if (transaction && !(transaction & (PERF_TXN_SYNC | PERF_TXN_ASYNC)))
		buf_put_text(out, "NEITHER ");
	if (transaction & PERF_TXN_ABORT_MASK)
		buf_printf(out, ":%" PRIx64, (transaction & PERF_TXN_ABORT_MASK) >> PERF_TXN_ABORT_SHIFT);
}
