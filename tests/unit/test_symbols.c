/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/symbols/dso.h"
#include "analyze/symbols/elf.h"
#include "analyze/symbols/symbol_text.h"
#include "analyze/symbols/symbols.h"
#include "base/buf.h"
#include "base/cleanup.h"

static void add(struct symbols *symbols, uint64_t start, uint64_t size, enum symbol_binding binding, const char *name)
{
	assert_int_equal(symbols_add(symbols, start, size, binding, name, strlen(name)), 0);
}

static const char *name_at(struct symbols *symbols, uint64_t address)
{
	const struct symbol *symbol = symbols_find(symbols, address);
	return symbol ? symbol->name : "(none)";
}

static void test_empty(void **state)
{
	(void)state;
	struct symbols symbols = {0};

	symbols_fixup(&symbols, 0);
	assert_null(symbols_find(&symbols, 0));
	assert_null(symbols_first(&symbols));
	symbols_fini(&symbols);
}

static void test_sized_and_gaps(void **state)
{
	(void)state;
	struct symbols symbols = {0};

	add(&symbols, 300, 10, SYMBOL_LOCAL, "c");
	add(&symbols, 100, 50, SYMBOL_LOCAL, "a");
	add(&symbols, 150, 50, SYMBOL_LOCAL, "b");
	symbols_fixup(&symbols, 0);
	assert_string_equal(name_at(&symbols, 99), "(none)");
	assert_string_equal(name_at(&symbols, 100), "a");
	assert_string_equal(name_at(&symbols, 149), "a");
	assert_string_equal(name_at(&symbols, 150), "b");
	assert_string_equal(name_at(&symbols, 200), "(none)");
	assert_string_equal(name_at(&symbols, 309), "c");
	assert_string_equal(name_at(&symbols, 310), "(none)");
	symbols_fini(&symbols);
}

/* Each may be the end of the one before in a file, so that a few bytes stand for many symbols with long names. */
static void test_names_that_are_too_long(void **state)
{
	(void)state;
	struct symbols symbols = {0};
	char *name = malloc(SYMBOL_NAME_MAX + 2);

	assert_non_null(name);
	memset(name, 'n', SYMBOL_NAME_MAX + 1);
	name[SYMBOL_NAME_MAX + 1] = '\0';
	add(&symbols, 100, 50, SYMBOL_GLOBAL, name);
	add(&symbols, 200, 50, SYMBOL_GLOBAL, name);
	add(&symbols, 200, 0, SYMBOL_LOCAL, "short");
	name[SYMBOL_NAME_MAX] = '\0';
	add(&symbols, 300, 50, SYMBOL_GLOBAL, name);
	memcpy(name + SYMBOL_NAME_MAX - strlen(SYMBOL_CUT_MARK) - 1, "\xc3\xa4",
	       2); /* it stays whole, or is left out */
	name[SYMBOL_NAME_MAX] = 'n';
	add(&symbols, 400, 50, SYMBOL_GLOBAL, name);
	symbols_fixup(&symbols, 0);
	assert_string_equal(name_at(&symbols, 200), "short");
	const char *cut = name_at(&symbols, 400);
	assert_int_equal(strlen(cut), SYMBOL_NAME_MAX - 1);
	assert_memory_equal(cut, name, SYMBOL_NAME_MAX - 1 - strlen(SYMBOL_CUT_MARK));
	memset(name, 'n', SYMBOL_NAME_MAX);
	name[SYMBOL_NAME_MAX] = '\0';
	assert_string_equal(name_at(&symbols, 300), name);
	strcpy(name + SYMBOL_NAME_MAX - strlen(SYMBOL_CUT_MARK), SYMBOL_CUT_MARK);
	assert_string_equal(name_at(&symbols, 100), name);
	symbols_fini(&symbols);
	free(name);
}

/* Symbols without a size reach to the next; the last one to the end of the page behind its own. */
static void test_ends(void **state)
{
	(void)state;
	struct symbols symbols = {0};

	add(&symbols, 0x1000, 0, SYMBOL_LOCAL, "first");
	add(&symbols, 0x1800, 0, SYMBOL_LOCAL, "last");
	symbols_fixup(&symbols, 0);
	assert_string_equal(name_at(&symbols, 0x17ff), "first");
	assert_string_equal(name_at(&symbols, 0x2fff), "last");
	assert_string_equal(name_at(&symbols, 0x3000), "(none)");
	assert_int_equal(symbols_first(&symbols)->start, 0x1000);
	assert_int_equal(symbols_last(&symbols)->end, 0x3000);
	symbols_fini(&symbols);
}

/* As in kernels: some at the bottom, the code at the top, modules far behind it; each address is found by its symbol.
 */
static void test_many_far_apart(void **state)
{
	(void)state;
	enum { NR = 3000, BELOW = 300, BEHIND = 100 };
	struct symbols symbols = {0};
	uint64_t starts[NR], seed = 88172645463325252u;
	char name[16];

	for (unsigned i = 0; i < NR; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		uint64_t room = 16 + (seed >> 40) % 2000;
		starts[i] = i == 0             ? 0
			    : i == BELOW       ? 0xffffffff81000000u
			    : i == NR - BEHIND ? 0xffffffffc0000000u
					       : starts[i - 1] + room;
		snprintf(name, sizeof(name), "f%u", i);
		add(&symbols, starts[i], i % 3 ? 16 : 0, SYMBOL_LOCAL, name); /* a gap behind two of three */
	}
	symbols_fixup(&symbols, 0);
	for (unsigned i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		assert_string_equal(name_at(&symbols, starts[i]), name);
		assert_string_equal(name_at(&symbols, starts[i] + 15), name);
		symbols.last = 0; /* where the last one was found is not to help */
		if (i + 1 < NR && i % 3 && starts[i + 1] > starts[i] + 16)
			assert_string_equal(name_at(&symbols, starts[i] + 16), "(none)");
		else if (i + 1 < NR && i + 1 != BELOW && i + 1 != NR - BEHIND)
			assert_string_equal(name_at(&symbols, starts[i + 1] - 1), name);
	}
	assert_string_equal(name_at(&symbols, UINT64_MAX - 4096), "(none)");
	symbols_fini(&symbols);
}

static void test_aliases(void **state)
{
	(void)state;
	static const struct {
		uint64_t size[2];
		enum symbol_binding binding[2];
		const char *name[2]; /* the first one has to win, whichever comes first */
	} cases[] = {
		{{8, 8}, {SYMBOL_LOCAL, SYMBOL_WEAK}, {"strong", "weakling"}},
		{{8, 8}, {SYMBOL_GLOBAL, SYMBOL_LOCAL}, {"__global", "local"}},
		{{8, 8}, {SYMBOL_GLOBAL, SYMBOL_GLOBAL}, {"_one", "__twoo"}},
		{{8, 8}, {SYMBOL_GLOBAL, SYMBOL_GLOBAL}, {"longer", "short"}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int first = 0; first < 2; first++) {
			struct symbols symbols = {0};
			for (int k = 0; k < 2; k++) {
				int which = first ^ k;
				add(&symbols, 64, cases[i].size[which], cases[i].binding[which], cases[i].name[which]);
			}
			symbols_fixup(&symbols, 0);
			assert_string_equal(name_at(&symbols, 65), cases[i].name[0]);
			symbols_fini(&symbols);
		}
	}
}

/* A symbol without a size loses, unless it comes last: then it has got one. */
static void test_alias_with_size(void **state)
{
	(void)state;
	struct symbols symbols = {0};

	add(&symbols, 64, 0, SYMBOL_GLOBAL, "empty");
	add(&symbols, 64, 8, SYMBOL_WEAK, "__sized");
	add(&symbols, 96, 8, SYMBOL_GLOBAL, "next");
	symbols_fixup(&symbols, 0);
	assert_string_equal(name_at(&symbols, 70), "__sized");
	assert_string_equal(name_at(&symbols, 80), "(none)");
	symbols_fini(&symbols);
}

/* Of symbols without sizes at one address, as in kallsyms, the last one gets the range. */
static void test_aliases_without_size(void **state)
{
	(void)state;
	struct symbols symbols = {0};

	add(&symbols, 64, 0, SYMBOL_GLOBAL, "one_with_a_long_name");
	add(&symbols, 64, 0, SYMBOL_WEAK, "two");
	add(&symbols, 96, 0, SYMBOL_GLOBAL, "next");
	symbols_fixup(&symbols, 0);
	assert_string_equal(name_at(&symbols, 70), "two");
	symbols_fini(&symbols);
}

/*
 * Overlapping symbols: the root of the look-up tree decides. With three symbols the middle one by start is
 * the root: behind its end the search goes on to the right only, so what encloses it on the left is not found
 * any more.
 */
static void test_overlap_follows_tree(void **state)
{
	(void)state;
	struct symbols symbols = {0};

	add(&symbols, 0, 1000, SYMBOL_LOCAL, "outer");
	add(&symbols, 100, 10, SYMBOL_LOCAL, "inner");
	add(&symbols, 2000, 10, SYMBOL_LOCAL, "far");
	symbols_fixup(&symbols, 0);
	assert_string_equal(name_at(&symbols, 50), "outer");
	assert_string_equal(name_at(&symbols, 105), "inner");
	assert_string_equal(name_at(&symbols, 500), "(none)");
	symbols_fini(&symbols);

	/* With two the outer one is the root and hides the inner one. */
	add(&symbols, 0, 1000, SYMBOL_LOCAL, "outer");
	add(&symbols, 100, 10, SYMBOL_LOCAL, "inner");
	symbols_fixup(&symbols, 0);
	assert_string_equal(name_at(&symbols, 105), "outer");
	assert_string_equal(name_at(&symbols, 500), "outer");
	symbols_fini(&symbols);
}

static bool named_as_by_all(const struct symbols *symbols, uint64_t address, const char *name)
{
	const char *only = NULL;

	for (size_t i = 0; i < symbols->nr; i++) {
		const struct symbol_entry *entry = &symbols->entries[i];
		uint64_t end = entry->end == entry->start ? entry->start + 1 : entry->end;
		if (address < entry->start || address >= end)
			continue;
		if (only && strcmp(only, symbols_name(symbols, entry)) != 0)
			return strcmp(name, "(none)") == 0;
		only = symbols_name(symbols, entry);
	}
	return strcmp(name, only ? only : "(none)") == 0;
}

/* Code in memory that was used again has the name of all symbols there, or none. */
static void test_overlap_of_one_name(void **state)
{
	static const char *const texts[] = {"a", "b", "c"};
	uint32_t random = 1;
	(void)state;

	for (unsigned run = 0; run < 300; run++) {
		struct symbols symbols = {0};
		for (unsigned i = 0; i <= run % 12; i++) {
			random = random * 1103515245 + 12345;
			add(&symbols, random >> 8 & 63, random >> 16 & 15, SYMBOL_GLOBAL, texts[(random >> 24) % 3]);
		}
		symbols_fixup(&symbols, SYMBOLS_KEEP_ALIASES | SYMBOLS_ONE_NAME);
		for (uint64_t address = 0; address < 90; address++)
			assert_true(named_as_by_all(&symbols, address, name_at(&symbols, address)));
		symbols_fini(&symbols);
	}
}

static void test_name_conflicts_are_known(void **state)
{
	(void)state;

	for (unsigned other = 0; other < 2; other++) {
		struct symbols symbols = {0};
		add(&symbols, 16, 16, SYMBOL_GLOBAL, "a");
		add(&symbols, 24, UINT64_MAX - 24, SYMBOL_GLOBAL, other ? "b" : "a");
		symbols_fixup(&symbols, SYMBOLS_KEEP_ALIASES | SYMBOLS_ONE_NAME);
		assert_string_equal(name_at(&symbols, 24), other ? "(none)" : "a");
		assert_string_equal(name_at(&symbols, UINT64_MAX - 1), other ? "b" : "a");
		assert_int_equal(symbols.name_conflicts, other);
		symbols_fini(&symbols);
	}
}

static void test_labels_where_functions_begin(void **state)
{
	static const char label[] = "module_code_begin", function[] = "first";
	(void)state;

	for (unsigned order = 0; order < 2; order++) {
		struct symbols symbols = {0};
		add(&symbols, 16, order ? 8 : 0, SYMBOL_GLOBAL, order ? function : label);
		add(&symbols, 16, order ? 0 : 8, SYMBOL_GLOBAL, order ? label : function);
		add(&symbols, 32, 0, SYMBOL_GLOBAL, "module_code_end");
		symbols_fixup(&symbols, 0);
		assert_string_equal(name_at(&symbols, 16), function);
		assert_string_equal(name_at(&symbols, 24), "(none)");
		assert_string_equal(name_at(&symbols, 32), "module_code_end");
		symbols_fini(&symbols);
	}
}

static void test_demangling(void **state)
{
	(void)state;
	struct symbols symbols = {0};

	add(&symbols, 16, 16, SYMBOL_GLOBAL, "_ZN2ns3FooIdE3runEiRSt6vectorIdSaIdEE");
	add(&symbols, 32, 16, SYMBOL_GLOBAL, "_Zzzz");
	add(&symbols, 48, 16, SYMBOL_GLOBAL, "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE");
	add(&symbols, 64, 16, SYMBOL_GLOBAL, "_RNvC6_123foo3bar");
	add(&symbols, 80, 16, SYMBOL_GLOBAL, "camlStdlib__List__$2b_1");
	add(&symbols, 96, 16, SYMBOL_GLOBAL, "_ZNSt6vectorIiE4sizeEv@plt");
	add(&symbols, 112, 16, SYMBOL_GLOBAL, "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE@plt");
	add(&symbols, 128, 16, SYMBOL_GLOBAL, "malloc@plt");
	add(&symbols, 144, 16, SYMBOL_GLOBAL, "@plt");
	symbols_fixup(&symbols, 0);
	assert_string_equal(name_at(&symbols, 96), "std::vector<int>::size@plt");
	assert_string_equal(name_at(&symbols, 112), "core::fmt::Formatter::pad@plt");
	assert_string_equal(name_at(&symbols, 128), "malloc@plt");
	assert_string_equal(name_at(&symbols, 144), "@plt");
	assert_string_equal(name_at(&symbols, 64), "123foo::bar");
	assert_string_equal(name_at(&symbols, 80), "Stdlib.List.+_1");
	assert_string_equal(name_at(&symbols, 16), "ns::Foo<double>::run");
	assert_string_equal(name_at(&symbols, 32), "_Zzzz");
	assert_string_equal(name_at(&symbols, 48), "core::fmt::Formatter::pad");
	symbols_fini(&symbols);
}

static void assert_demangled(const char *name, const char *wanted)
{
	char *readable = symbol_demangle(name);

	if (wanted)
		assert_string_equal(readable, wanted);
	else
		assert_null(readable);
	free(readable);
}

/* `nr` times `part` between two others. On the heap. */
static char *repeated(const char *before, const char *part, size_t nr, const char *behind)
{
	size_t len = strlen(part);
	char *text = malloc(strlen(before) + nr * len + strlen(behind) + 1), *to = text;

	assert_non_null(text);
	to = stpcpy(to, before);
	for (size_t i = 0; i < nr; i++)
		to = stpcpy(to, part);
	strcpy(to, behind);
	return text;
}

/* As compilers write them: longer than libiberty's own limit; of both kinds of Rust. */
static void test_demangling_of_long_names(void **state)
{
	char *name = repeated("_Z1fIJ", "3abc", 600, "EEvv"), *wanted = repeated("f<", "abc, ", 599, "abc>");

	(void)state;
	assert_demangled(name, wanted);
	assert_demangled("LHot;run([[ILjava/lang/String;J)V", "Hot.run(int[][], java.lang.String, long)");
	assert_demangled("Ljava/util/Map$1;<init>()[B", "java.util.Map$1.<init>()");
	assert_false(symbol_is_mangled("Lcom/Some;::method(I)V")); /* of another agent: perf prints it as it is */
	assert_demangled("_RNvNtC7mycrate3foo3bar", "mycrate::foo::bar");
	assert_demangled("_RINvC1a3CFGFG_RL0_hEuE", "a::CFG::<for<'a> fn(&'a u8)>");
	free(name);
	free(wanted);
}

/* As gdc 12 and older compilers write them; the texts are those of c++filt -s dlang, but for what GCC appends. */
static void test_demangling_of_d(void **state)
{
	static const char *const names[][2] = {
		{"_Dmain", "D main"},
		{"_D3hot__T1CTmZQf4spinMFiZm", "hot.C!(ulong).C.spin(int)"},
		{"_D3app3hot5outerFiZ6nestedMFiZ6deeperMFMDFlZlZl",
		 "app.hot.outer(int).nested(int).deeper(scope long(long) delegate)"},
		{"_D3app3hot__T5applySQsQq4mainFAAyaZ10__lambda10TAiZQBmMFNaNbNiNfQqZl",
		 "app.hot.apply!(app.hot.main(immutable(char)[][]).__lambda10, int[]).apply(int[])"},
		{"_D3app3hot__T5twiceTiZQjFNaNbNiNfAyaAiHQgiPxiLiJiZQo",
		 "app.hot.twice!(int).twice(immutable(char)[], int[], int[immutable(char)[]], const(int)*, lazy int, "
		 "out int)"},
		{"_D3app3hot__T6MatrixTiVmi4ZQo__T10opOpAssignVAyaa1_2aZQwMFNaNbNcNiNfiZSQCrQCq__TQCpTiVmi4ZQCz",
		 "app.hot.Matrix!(int, 4uL).Matrix.opOpAssign!(\"*\").opOpAssign(int)"},
		{"_D3app3hot__T6MatrixTdVmi16ZQp3sumMxFNaNbNiNfxAdXd",
		 "app.hot.Matrix!(double, 16uL).Matrix.sum(const(double[])...) const"},
		{"_D3app3hot6Circle6__ctorMFdZCQBbQBaQz", "app.hot.Circle.this(double)"},
		{"_D3app3hot6Circle6__initZ", "initializer for app.hot.Circle"},
		{"_D3app3hot6Circle10__postblitMFZv", "app.hot.Circle.this(this)"},
		{"_D4test3runFPUNaZaDxFZvNhG4fB2iaOxNgPvYv",
		 "test.run(extern(C) char() pure function, void() delegate const, __vector(float[4]), Tuple!(int, "
		 "char), shared(const(inout(void*))), ...)"},
		{"_D4test35__T1tVdeN0A8PN6VHiiA1i1i2Vai65VPinZ1fFZv", "test.t!(-0x0.A8p-6, [1:2], 'A', null).f()"},
		{"_D2rt4workFNaNbNkMS4core7BlkInfoZPv", "rt.work(scope return core.BlkInfo)"},
		{"_D3app5outerFiZl.constprop.0.cold", "app.outer(int) [clone .constprop.0.cold]"},
		{"_DTi16_D3app6Circle4areaMxFZd", "non-virtual thunk to app.Circle.area() const"},
		{"_D3app5outerFiZ", NULL},
		{"_D3app5outerQzFiZv", NULL},
		{"_D9app", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *readable = names[i][1] ? NULL : symbol_demangle(names[i][0]);
		assert_null(readable);
		if (names[i][1])
			assert_demangled(names[i][0], names[i][1]);
	}
}

/* Names of a few hundred bytes whose text would fill the memory, or that can be split in any number of ways. */
static void test_demangling_is_bounded(void **state)
{
	char *const names[] = {
		repeated("_RIC1aTuuE", "TB4_B4_E", 60, "E"), repeated("_RIC1a", "TB2_B2_B2_B2_", 60, "E"),
		repeated("_Z1f", "P", 16000, "i"),           repeated("_Z1f", "F", 16000, "v"),
		repeated("_Z99990", "a", 100000, ""),        repeated("_D1a1bF", "HiQb", 2000, "Zv"),
		repeated("caml", "$2b", 40000, ""),          repeated("_D1aF", "S1aF", 4000, ""),
		repeated("_D1a", "__T1bS1111", 1600, ""),    repeated("_D1a", "1aMF", 4000, "Zv"),
		repeated("_D1aF", "A", 16000, "iZv"),        repeated("_D1aF", "B9999", 3000, "i"),
		repeated("_D1aF", "HAiQb", 3000, "Zv"),      repeated("_D1aF", "DFS1aMF", 2000, ""),
		repeated("_Zcv", "T_I", 300, "iv"),          repeated("_ZN1Acv", "T12_I", 3000, "iEv"),
		repeated("_RMIC1aFG", "z", 9, "_EuEu"),      repeated("_RC1aIC1aDG", "z", 9, "_EuE"),
		repeated("_RMIC1a", "FGzzz_Eu", 2000, "Eu"), repeated("_RMIC1aFG", "z", 9000, "_EuEu"),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *readable = symbol_demangle(names[i]);
		assert_true(!readable || strlen(readable) <= SYMBOL_NAME_MAX);
		free(readable);
		free(names[i]);
	}
}

/* S_, S0_ to SZ_, S10_ and so on. */
static void put_reference(struct buf *out, unsigned number)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	buf_put_u8(out, 'S');
	if (number > 36)
		buf_put_u8(out, (uint8_t)digits[(number - 1) / 36]);
	if (number)
		buf_put_u8(out, (uint8_t)digits[(number - 1) % 36]);
	buf_put_u8(out, '_');
}

/*
 * The type that a constructor is inherited from is not in the text; here it has pairs of pairs, of which the last one
 * is expanded in the argument behind it.
 */
static char *expanded_pairs(unsigned nr)
{
	AUTO_BUF struct buf name = {0};

	buf_put_text(&name, "_ZN1ACI1Fv1BIS_S_E");
	for (unsigned i = 1; i < nr; i++) {
		buf_put_text(&name, "S0_I");
		put_reference(&name, i + 1);
		put_reference(&name, i + 1);
		buf_put_u8(&name, 'E');
	}
	buf_put_text(&name, "EIDp");
	put_reference(&name, nr + 1);
	buf_put_text(&name, "EEv");
	buf_put_u8(&name, '\0');
	return (char *)take_ptr(name.data);
}

/* A pack is looked for on each path to a part of a name. */
static void test_demangling_of_expansions_is_bounded(void **state)
{
	(void)state;
	for (unsigned nr = 2; nr <= 70; nr++) {
		AUTO_FREE char *name = expanded_pairs(nr), *readable = symbol_demangle(name);
		assert_int_equal(readable != NULL, nr <= 12);
		if (nr == 2)
			assert_string_equal(readable, "A::B<(B<B<A, A>, B<A, A> >)...>");
	}
}

__attribute__((noinline)) static void find_me(void)
{
	__asm__ volatile("");
}

extern int main(void);

/* The test binary itself: the distance of two of its functions is the same in memory and in the file. */
static void test_own_elf(void **state)
{
	(void)state;
	struct symbols symbols = {0};
	struct elf_source source;
	const struct symbol *found_main = NULL, *found_me = NULL;

	find_me();
	assert_int_equal(elf_source_open("/proc/self/exe", NULL, &source), 0);
	assert_int_equal(elf_symbols_load(&symbols, &source, &source), 0);
	elf_source_close(&source);
	bool plt = false;
	for (size_t i = 0; i < symbols.nr; i++) {
		const char *name = symbols_name(&symbols, &symbols.entries[i]);
		if (strcmp(name, "main") == 0)
			found_main = symbols_find(&symbols, symbols.entries[i].start);
		else if (strcmp(name, "find_me") == 0)
			found_me = symbols_find(&symbols, symbols.entries[i].start);
		else
			plt = plt || strcmp(name, "_assert_string_equal@plt") == 0;
	}
	assert_non_null(found_main);
	assert_non_null(found_me);
	assert_string_equal(found_me->name, "find_me");
	assert_int_equal(found_me->start - found_main->start, (uintptr_t)find_me - (uintptr_t)main);
	assert_true(plt);
	symbols_fini(&symbols);
}

static void test_elf_build_id(void **state)
{
	(void)state;
	static const uint8_t notes[] = {4, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 'X', 'e', 'n', 0, 1,    2,    0,    0,
					4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, 0xab, 0xcd, 0xef, 0};
	struct elf_id id, other = {.bytes = {0xab, 0xcd, 0xef}, .len = 20};
	struct elf_source source;

	assert_true(elf_id_from_notes(notes, sizeof(notes), &id));
	assert_int_equal(id.len, 3);
	assert_true(elf_id_equal(&id, &other));
	assert_true(elf_id_from_notes(notes, sizeof(notes) - 1, &id)); /* linkers do not pad the last one */
	assert_true(elf_id_equal(&id, &other));
	other.bytes[19] = 1;
	assert_false(elf_id_equal(&id, &other));
	for (size_t len = 0; len < sizeof(notes) - 1; len++)
		assert_false(elf_id_from_notes(notes, len, &id));
	assert_int_equal(elf_source_open("/proc/self/exe", &other, &source), -ESTALE);
	assert_int_equal(elf_source_open("/dev/null", NULL, &source), -EINVAL);
	assert_int_equal(elf_source_open("/proc/self/maps", NULL, &source), -ENOEXEC);
	assert_int_equal(elf_source_open("/", NULL, &source), -EINVAL);
}

static struct span text(const char *lines)
{
	return (struct span){lines, strlen(lines)};
}

static void test_kallsyms(void **state)
{
	(void)state;
	struct span rest = text("ffffffff81000000 T _text\n"
				"no line at all\n"
				"\n"
				"fffffffffffffffff T too_long\n"
				"000000000000000g T no_digit\n"
				"0000000:00000000 T no_digit\n"
				"`000000000000000 T no_digit\n"
				"0123456789abcdef T lower\n"
				"FEDCBA9876543210 T upper\n"
				"0000000000000000 A zero\n"
				"10 t\n"
				"20 t \n"
				"ffffffffc0203000 t tramp\t[__builtin__ftrace]\n"
				"30 D last [with blanks]");
	struct kallsyms_line line;

	assert_true(kallsyms_next(&rest, &line));
	assert_int_equal(line.address, 0xffffffff81000000);
	assert_int_equal(line.type, 'T');
	assert_memory_equal(line.name, "_text", line.name_len);
	assert_null(line.module);
	for (unsigned i = 0; i < 3; i++) {
		static const uint64_t addresses[] = {0x0123456789abcdef, 0xfedcba9876543210, 0};
		assert_true(kallsyms_next(&rest, &line));
		assert_true(line.address == addresses[i]);
	}
	assert_true(kallsyms_next(&rest, &line));
	assert_int_equal(line.name_len, 5);
	assert_int_equal(line.module_len, strlen("__builtin__ftrace"));
	assert_memory_equal(line.module, "__builtin__ftrace", line.module_len);
	assert_true(kallsyms_next(&rest, &line));
	assert_int_equal(line.name_len, strlen("last [with blanks]"));
	assert_false(kallsyms_next(&rest, &line));
}

static void test_perfmap(void **state)
{
	(void)state;
	static const char lines[] = "1000 10 jitted name with blanks\n"
				    "0x2000 0x20 other\n"
				    "3000 20\n"
				    "xyz 10 bad\n"
				    "12345678901234567 10 long\n"
				    "4000 10 nul\0inside\n"
				    "4010 ffffffffffffbff0 to the last address, and over it\n"
				    "4020 ffffffffffffffff likewise\n"
				    " \t4100\t 10\taligned\n"
				    "  \n"
				    "5000 1 tail";
	struct span rest = {lines, sizeof(lines) - 1};
	struct perfmap_line line;

	assert_true(perfmap_next(&rest, &line));
	assert_int_equal(line.start, 0x1000);
	assert_int_equal(line.size, 0x10);
	assert_int_equal(line.name_len, strlen("jitted name with blanks"));
	assert_true(perfmap_next(&rest, &line));
	assert_int_equal(line.start, 0x2000);
	assert_true(perfmap_next(&rest, &line));
	assert_int_equal(line.start, 0x4100);
	assert_int_equal(line.size, 0x10);
	assert_memory_equal(line.name, "aligned", line.name_len);
	assert_true(perfmap_next(&rest, &line));
	assert_int_equal(line.start, 0x5000);
	assert_memory_equal(line.name, "tail", line.name_len);
	assert_false(perfmap_next(&rest, &line));
}

/* More than are sorted by comparing: in the same order, by address and then as they were added; twice. */
static void test_many_are_sorted(void **state)
{
	struct symbols symbols = {0};
	uint64_t random = 1;

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 3000; i++) {
			random = random * 6364136223846793005 + 1442695040888963407;
			uint64_t start = (i % 5 ? 0 : 0xffffffff80000000) + (random >> 33) % (i % 3 ? 50 : 5000000);
			assert_int_equal(symbols_add(&symbols, start, 1, SYMBOL_GLOBAL, "f", 1), 0);
		}
		symbols_fixup(&symbols, SYMBOLS_KEEP_ALIASES);
	}
	assert_int_equal(symbols.nr, 6000);
	for (size_t i = 1; i < symbols.nr; i++) {
		const struct symbol_entry *a = &symbols.entries[i - 1], *b = &symbols.entries[i];
		assert_true(a->start < b->start || (a->start == b->start && a->added < b->added));
	}
	symbols_fini(&symbols);
}

/* So many aliases of one name, which is demangled for each of them until all took enough. Returns how many were. */
static size_t demangle_aliases(const char *name, size_t nr, uint64_t *ret_demangled)
{
	struct symbols symbols = {0};
	size_t nr_demangled = 0;
	uint32_t at;

	assert_int_equal(symbols_add_names(&symbols, name, strlen(name) + 1, &at), 0);
	for (size_t i = 0; i < nr; i++)
		assert_int_equal(symbols_add_named(&symbols, 0x1000, 16, SYMBOL_GLOBAL, at), 0);
	symbols_fixup(&symbols, 0);
	for (size_t i = 0; i < nr; i++)
		nr_demangled += strcmp(symbols_name(&symbols, &symbols.entries[i]), name) != 0;
	*ret_demangled = symbols.demangled;
	symbols_fini(&symbols);
	return nr_demangled;
}

static void test_many_names_that_grow(void **state)
{
	/* Each argument of the template is a pair of two of the one before; the second one's readable name is too long.
	 */
	static const char long_name[] =
		"_Z1fISt4pairIiiES0_IS1_S1_ES0_IS2_S2_ES0_IS3_S3_ES0_IS4_S4_ES0_IS5_S5_ES0_IS6_S6_EEvv";
	static const char too_long[] = "_Z1fISt4pairIiiES0_IS1_S1_ES0_IS2_S2_ES0_IS3_S3_ES0_IS4_S4_ES0_IS5_S5_ES0_IS6_"
				       "S6_ES0_IS7_S7_ES0_IS8_S8_ES0_IS9_S9_ES0_ISA_SA_ES0_ISB_SB_ES0_ISC_SC_EEvv";
	const uint64_t most = SYMBOLS_DEMANGLE_BYTES + UINT64_C(8) * sizeof(too_long);
	enum { FEW = 100, MANY = 100000 };
	uint64_t demangled;

	(void)state;
	char *readable = symbol_demangle(long_name);
	assert_non_null(readable);
	const size_t len = strlen(readable);
	free(readable);
	assert_true(len > 1024);
	assert_null(symbol_demangle(too_long));
	assert_int_equal(demangle_aliases(long_name, FEW, &demangled), FEW);
	assert_int_equal(demangled, FEW * (strlen(long_name) + len));
	size_t nr = demangle_aliases(long_name, MANY, &demangled);
	assert_true(nr > FEW && nr < MANY);
	assert_true(demangled <= most + sizeof(long_name) + len);
	assert_int_equal(demangle_aliases(too_long, MANY, &demangled), 0);
	assert_true(demangled <= most + sizeof(too_long) + SYMBOL_NAME_MAX);
}

/* Those that were looked up equally often in the order in which they became known, the same in each run. */
static void test_order_of_doubts(void **state)
{
	enum { NR = 200, SHOWN = 20, OFTEN = 77 };
	struct dso_table table = {0};
	const struct dso *shown[SHOWN];
	char name[16];

	(void)state;
	for (unsigned i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), "/lib/%u.so", i);
		struct dso *dso = dso_find(&table, name, NULL, DSO_FILE);
		assert_non_null(dso);
		dso->doubt.why = DSO_OTHER_BUILD;
		dso->doubt.nr_uses = i == OFTEN ? 2 : i % 2;
	}
	assert_int_equal(dso_list_doubts(&table, shown, SHOWN), NR / 2);
	assert_string_equal(dso_long_name(shown[0]), "/lib/77.so");
	for (unsigned i = 1; i < SHOWN; i++) {
		snprintf(name, sizeof(name), "/lib/%u.so", 2 * i - 1);
		assert_string_equal(dso_long_name(shown[i]), name);
	}
	dso_table_fini(&table);
}

static size_t nr_comparisons;

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);

int __wrap_strcmp(const char *a, const char *b)
{
	nr_comparisons++;
	return __real_strcmp(a, b);
}

static struct object_id file_number(uint64_t inode, uint64_t generation)
{
	return (struct object_id){.file = {.major = 8, .minor = 1, .inode = inode, .generation = generation}};
}

static struct object_id build_number(unsigned number)
{
	struct object_id id = {.build_id = {.len = sizeof(number) + 1}};

	memcpy(id.build_id.bytes + 1, &number, sizeof(number));
	return id;
}

/* The id of each of them may become better known. */
static void test_objects_of_one_name(void **state)
{
	struct dso_table table = {0};
	const struct object_id any = file_number(1, 0), one = file_number(1, 7), two = file_number(1, 8),
			       other = file_number(2, 0), build = build_number(3);
	struct object_id padded = build;
	struct dso *first = dso_find(&table, "/lib/a.so", NULL, DSO_FILE);

	(void)state;
	padded.build_id.len = ELF_ID_MAX_BYTES;
	assert_ptr_equal(dso_find(&table, "/lib/a.so", NULL, DSO_FILE), first);
	assert_ptr_not_equal(dso_find(&table, "/lib/a.so", NULL, DSO_NOTHING), first);
	assert_ptr_not_equal(dso_find(&table, "/lib/b.so", NULL, DSO_FILE), first);
	assert_ptr_equal(dso_find(&table, "/lib/a.so", &any, DSO_FILE), first);
	assert_int_equal(first->id.file.inode, 1);
	struct dso *second = dso_find(&table, "/lib/a.so", &other, DSO_FILE);
	assert_ptr_not_equal(second, first);
	assert_ptr_equal(dso_find(&table, "/lib/a.so", &one, DSO_FILE), first);
	assert_int_equal(first->id.file.generation, 7);
	assert_ptr_equal(dso_find(&table, "/lib/a.so", NULL, DSO_FILE), second);
	assert_ptr_equal(dso_find(&table, "/lib/a.so", &any, DSO_FILE), first);
	struct dso *third = dso_find(&table, "/lib/a.so", &two, DSO_FILE);
	assert_ptr_not_equal(third, first);
	assert_ptr_equal(dso_find(&table, "/lib/a.so", &any, DSO_FILE), third);
	assert_ptr_equal(dso_find(&table, "/lib/a.so", &one, DSO_FILE), first);
	struct dso *fourth = dso_find(&table, "/lib/a.so", &build, DSO_FILE);
	assert_ptr_not_equal(fourth, third);
	assert_int_equal(fourth->build_id.len, build.build_id.len);
	assert_ptr_equal(dso_find(&table, "/lib/a.so", &padded, DSO_FILE), fourth);
	assert_ptr_equal(dso_find(&table, "/lib/a.so", NULL, DSO_FILE), fourth);
	assert_ptr_equal(dso_find(&table, "/lib/a.so", &two, DSO_FILE), third);
	assert_ptr_equal(dso_find(&table, "/lib/a.so", &other, DSO_FILE), second);
	dso_table_fini(&table);
}

/* A path that had another file each time: none is looked for among all. */
static void test_many_objects_of_one_name(void **state)
{
	enum { NR = 1000 };
	struct dso_table table = {0};
	struct dso *found[3 * NR];

	(void)state;
	nr_comparisons = 0;
	for (unsigned turn = 0; turn < 2; turn++)
		for (unsigned i = 0; i < 3 * NR; i++) {
			const struct object_id id = i < NR       ? file_number(1 + i, 7)
						    : i < 2 * NR ? file_number(3 * NR, i)
								 : build_number(i);
			struct dso *dso = dso_find(&table, "/tmp/conftest", &id, DSO_FILE);
			assert_non_null(dso);
			if (turn)
				assert_ptr_equal(dso, found[i]);
			found[i] = dso;
		}
	assert_int_equal(table.nr, 3 * NR);
	assert_true(nr_comparisons > 3 * NR); /* they are counted */
	assert_true(nr_comparisons < 30 * NR);
	dso_table_fini(&table);
}

static void test_many_build_ids_of_one_path(void **state)
{
	enum { NR = 1000 };
	struct dso_table table = {0};

	(void)state;
	nr_comparisons = 0;
	for (unsigned turn = 0; turn < 2; turn++)
		for (unsigned i = 0; i < NR; i++)
			assert_int_equal(
				dso_learn_build_id(&table, "/tmp/conftest",
						   &(struct elf_id){{(uint8_t)(i % 250), (uint8_t)(i / 250)}, 2}),
				0);
	assert_true(nr_comparisons >= NR); /* they are counted */
	assert_true(nr_comparisons < 10 * NR);
	assert_int_equal(table.path_build_ids.nr, NR + 1); /* and the path itself */
	dso_table_fini(&table);
}

static size_t nr_entries_read;

bool __real_file_build_id_next(struct cursor *at, struct file_build_id *ret);
bool __wrap_file_build_id_next(struct cursor *at, struct file_build_id *ret);

bool __wrap_file_build_id_next(struct cursor *at, struct file_build_id *ret)
{
	nr_entries_read++;
	return __real_file_build_id_next(at, ret);
}

static void put_file_build(struct buf *payload, uint64_t inode, uint64_t generation, unsigned number)
{
	const struct file_build_id entry = {.file = file_number(inode, generation).file,
					    .build_id = build_number(number).build_id};

	file_build_id_put(&entry, payload);
}

/* The number of build_number(); 0: none. */
static unsigned file_build(const struct file_builds *builds, uint64_t inode, uint64_t generation)
{
	const struct object_id id = file_number(inode, generation);
	struct file_build_id found = {.stamp = {0}};
	unsigned number = 0;

	if (file_builds_find(builds, &id.file, &found) && found.build_id.len)
		memcpy(&number, found.build_id.bytes + 1, sizeof(number));
	return number;
}

static void test_build_ids_of_files(void **state)
{
	struct file_builds builds = {0};
	struct buf payload = {0};

	(void)state;
	put_file_build(&payload, 1, 7, 10);
	put_file_build(&payload, 1, 8, 11);
	put_file_build(&payload, 2, 0, 12);
	put_file_build(&payload, 3, 0, 13);
	put_file_build(&payload, 3, 7, 13);
	put_file_build(&payload, 3, 8, 14);
	put_file_build(&payload, 4, 7, 15);
	put_file_build(&payload, 4, 7, 16);
	put_file_build(&payload, 4, 8, 15);
	assert_int_equal(file_builds_fill(&builds, buf_span(&payload)), 0);
	assert_int_equal(file_build(&builds, 1, 7), 10);
	assert_int_equal(file_build(&builds, 1, 8), 11);
	assert_int_equal(file_build(&builds, 1, 9), 0);
	assert_int_equal(file_build(&builds, 1, 0), 0); /* it may be each of them */
	assert_int_equal(file_build(&builds, 2, 0), 12);
	assert_int_equal(file_build(&builds, 2, 9), 12);
	assert_int_equal(file_build(&builds, 3, 7), 13);
	assert_int_equal(file_build(&builds, 3, 8), 0);
	assert_int_equal(file_build(&builds, 3, 9), 13);
	assert_int_equal(file_build(&builds, 3, 0), 0);
	assert_int_equal(file_build(&builds, 4, 7), 0);
	assert_int_equal(file_build(&builds, 4, 8), 15);
	assert_int_equal(file_build(&builds, 5, 7), 0);
	file_builds_fini(&builds);
	buf_fini(&payload);
}

static void put_stamp(struct buf *payload, uint64_t inode, uint64_t generation, uint64_t bytes)
{
	const struct file_build_id entry = {.file = file_number(inode, generation).file,
					    .stamp = {.written_ns = bytes ? 5 : 0, .bytes = bytes}};

	file_build_id_put(&entry, payload);
}

/* -1: there is no entry. */
static int64_t stamp_bytes(const struct file_builds *builds, uint64_t inode, uint64_t generation)
{
	const struct object_id id = file_number(inode, generation);
	struct file_build_id found;

	if (!file_builds_find(builds, &id.file, &found))
		return -1;
	assert_int_equal(found.build_id.len, 0);
	assert_int_equal(found.stamp.written_ns, found.stamp.bytes ? 5 : 0);
	return (int64_t)found.stamp.bytes;
}

/* bytes 0: it was written to. What is not the same in all entries is not known. */
static void test_stamps_of_files(void **state)
{
	struct file_builds builds = {0};
	struct buf payload = {0};

	(void)state;
	put_stamp(&payload, 1, 7, 100);
	put_stamp(&payload, 1, 0, 100);
	put_stamp(&payload, 2, 7, 0);
	put_stamp(&payload, 3, 7, 100);
	put_stamp(&payload, 3, 7, 200);
	put_stamp(&payload, 4, 7, 100);
	put_file_build(&payload, 4, 7, 16);
	put_file_build(&payload, 5, 7, 16);
	put_stamp(&payload, 5, 7, 0);
	put_stamp(&payload, 6, 7, 100);
	put_stamp(&payload, 6, 0, 0);
	put_file_build(&payload, 7, 7, 17);
	assert_int_equal(file_builds_fill(&builds, buf_span(&payload)), 0);
	assert_int_equal(stamp_bytes(&builds, 1, 7), 100);
	assert_int_equal(stamp_bytes(&builds, 1, 9), 100);
	for (uint64_t inode = 2; inode <= 6; inode++)
		assert_int_equal(stamp_bytes(&builds, inode, 7), 0);
	assert_int_equal(file_build(&builds, 7, 7), 17);
	assert_int_equal(stamp_bytes(&builds, 8, 7), -1);
	file_builds_fini(&builds);
	buf_fini(&payload);
}

static void put_copy(struct buf *payload, uint64_t inode, uint64_t generation, uint64_t hash)
{
	struct file_build_id entry = {.file = file_number(inode, generation).file};

	copy_id_make(100, hash, 0, &entry.copy_id);
	file_build_id_put(&entry, payload);
}

static bool has_copy(const struct file_builds *builds, uint64_t inode, uint64_t generation, uint64_t hash)
{
	const struct object_id id = file_number(inode, generation);
	struct file_build_id found;
	struct elf_id copy;

	copy_id_make(100, hash, 0, &copy);
	assert_true(file_builds_find(builds, &id.file, &found));
	assert_int_equal(found.build_id.len, 0);
	return found.copy_id.len && elf_id_equal(&found.copy_id, &copy);
}

/* Beside what is known of the file itself; none of them where copies of a file differ. */
static void test_copies_of_files(void **state)
{
	struct file_builds builds = {0};
	struct buf payload = {0};

	(void)state;
	put_stamp(&payload, 1, 7, 100);
	put_copy(&payload, 1, 7, 50);
	put_stamp(&payload, 1, 8, 100);
	put_copy(&payload, 1, 8, 51);
	put_stamp(&payload, 2, 7, 100);
	for (unsigned i = 0; i < 3; i++)
		put_copy(&payload, 2, 7, 52 + i % 2);
	put_stamp(&payload, 3, 7, 100);
	put_copy(&payload, 3, 7, 54);
	put_copy(&payload, 3, 7, 54);
	put_stamp(&payload, 3, 0, 100);
	put_copy(&payload, 3, 0, 54);
	assert_int_equal(file_builds_fill(&builds, buf_span(&payload)), 0);
	assert_true(has_copy(&builds, 1, 7, 50));
	assert_true(has_copy(&builds, 1, 8, 51));
	assert_false(has_copy(&builds, 1, 0, 50) || has_copy(&builds, 1, 0, 51)); /* it may be each of them */
	assert_false(has_copy(&builds, 2, 7, 52) || has_copy(&builds, 2, 7, 53));
	assert_true(has_copy(&builds, 3, 7, 54));
	assert_true(has_copy(&builds, 3, 9, 54));
	for (uint64_t inode = 1; inode <= 3; inode++)
		assert_int_equal(stamp_bytes(&builds, inode, 7), 100);
	file_builds_fini(&builds);
	buf_fini(&payload);
}

static void test_build_ids_of_many_files(void **state)
{
	enum { NR = 200 };
	struct dso_table table = {0};
	struct buf payload = {0};
	char name[32];

	(void)state;
	for (unsigned i = 1; i <= NR; i++)
		put_file_build(&payload, i, 0, i);
	table.file_ids = buf_span(&payload);
	nr_entries_read = 0;
	for (unsigned i = 1; i <= NR; i++) {
		const struct object_id id = file_number(i, 0), expected = build_number(i);
		snprintf(name, sizeof(name), "/nowhere/%u.so", i);
		struct dso *dso = dso_find(&table, name, &id, DSO_FILE);
		assert_non_null(dso);
		dso_load(dso, "");
		assert_true(elf_id_equal(&dso->build_id, &expected.build_id));
	}
	assert_int_equal(nr_entries_read, NR + 1); /* and the end */
	dso_table_fini(&table);
	buf_fini(&payload);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_of_doubts),
		cmocka_unit_test(test_objects_of_one_name),
		cmocka_unit_test(test_many_objects_of_one_name),
		cmocka_unit_test(test_many_build_ids_of_one_path),
		cmocka_unit_test(test_build_ids_of_files),
		cmocka_unit_test(test_stamps_of_files),
		cmocka_unit_test(test_copies_of_files),
		cmocka_unit_test(test_build_ids_of_many_files),
		cmocka_unit_test(test_many_are_sorted),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_sized_and_gaps),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_names_that_are_too_long),
		cmocka_unit_test(test_many_far_apart),
		cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_alias_with_size),
		cmocka_unit_test(test_aliases_without_size),
		cmocka_unit_test(test_overlap_follows_tree),
		cmocka_unit_test(test_overlap_of_one_name),
		cmocka_unit_test(test_name_conflicts_are_known),
		cmocka_unit_test(test_demangling),
		cmocka_unit_test(test_demangling_of_long_names),
		cmocka_unit_test(test_demangling_of_d),
		cmocka_unit_test(test_demangling_is_bounded),
		cmocka_unit_test(test_demangling_of_expansions_is_bounded),
		cmocka_unit_test(test_own_elf),
		cmocka_unit_test(test_elf_build_id),
		cmocka_unit_test(test_kallsyms),
		cmocka_unit_test(test_perfmap),
		cmocka_unit_test(test_labels_where_functions_begin),
		cmocka_unit_test(test_many_names_that_grow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
