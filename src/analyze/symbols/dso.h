/* SPDX-License-Identifier: MIT */
/*
 * dso: an object that addresses point into: a program, a library, the kernel, a module, generated code.
 * Owned by a dso_table; lives as long as it. Symbols are read when the first address is looked up. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/symbols/downloads.h"
#include "analyze/symbols/file_builds.h"
#include "analyze/symbols/symbols.h"
#include "base/hash_table.h"
#include "base/pool.h"
#include "base/span.h"
#include "perfdata/object_id.h"

/* Where symbols are looked for. Texts are borrowed. */
struct symbol_options {
	const char *kallsyms; /* --kallsyms FILE; NULL: /proc/kallsyms when it is this machine's, else none */
	const char *vmlinux;  /* --vmlinux FILE; NULL: none */
	const char *cache;    /* --buildid-dir DIR: where copies of objects are, by build-id; NULL: ~/.debug */
	const char *symfs;    /* --symfs DIR: where to look for the files of the recorded machine; NULL: "" */
	/* --inline, --no-inline: for which frames the functions that were inlined there are shown, too. */
	enum { INLINE_UNWOUND /* of chains that are unwound here */, INLINE_ALL, INLINE_NONE } inlined;
	bool no_demangle;                   /* --no-demangle: names as the linker has them */
	bool demangle_kernel;               /* --demangle-kernel: those of the kernel and its modules, too */
	bool line_cache;                    /* keep what was looked up in debug information for later runs */
	bool ignore_vmlinux;                /* --ignore-vmlinux: the kernel's symbols come from kallsyms */
	struct download_options download;   /* --debuginfod */
	struct container_files *containers; /* borrowed; NULL: files of containers are not looked for */
};

enum dso_kind {
	DSO_FILE,
	DSO_KERNEL,
	DSO_MODULE,
	DSO_VDSO,
	DSO_PERFMAP, /* code without a file; /tmp/perf-PID.map may have its symbols */
	DSO_KSYMBOL, /* a symbol of a KSYMBOL record: a BPF program, a trampoline */
	DSO_NOTHING, /* has no symbols and never will */
};

struct dso {
	struct dso *next; /* the one that was added before */
	const char *name, *short_name;
	struct object_id id;    /* as it was mapped */
	struct elf_id build_id; /* that its files must have; len 0: unknown */
	/* Of a copy that the recorder kept: without a build-id, or another file has the same. len 0: there is none. */
	struct elf_id copy_id;
	uint64_t mapped_ns; /* first; 0: before the recording began, UINT64_MAX: no record says */
	enum dso_kind kind;
	uint32_t age; /* number in its table, from 1 */
	struct dso_table *table;
	bool loaded, only_copy; /* only_copy: not the file under its name */
	bool has_itself;        /* the file under its name is the one that was mapped */
	bool in_container;      /* without a build-id: a container has the file that was mapped; with only_copy */
	/* Where the symbols of a file came from: the best that was found. */
	enum { DSO_NO_FILE, DSO_STRIPPED /* to dynamic symbols, or none */, DSO_ALL_SYMBOLS } source;
	int refusal; /* why the file under its name cannot be read: -EACCES, -EIO, ...; 0: it can, or there is none */
	struct jit_code
		*jit; /* of DSO_PERFMAP: from its jitdump, which comes before the map; owned. NULL: there is none */
	uint64_t program_ns;   /* of DSO_PERFMAP: dso_find_code() */
	const char *lost_dump; /* of DSO_PERFMAP: the path of its jitdump, which is not there; NULL: it is, or there is
				  none */
	const struct bpf_lines *bpf_lines; /* of DSO_KSYMBOL; borrowed. NULL: there are none */
	struct dso_doubt doubt;
	struct symbols symbols;
	/* Of DSO_KERNEL: the image with its symbols; image_shift: an address in the image minus the recorded one. */
	const char *image_path; /* NULL: there is none */
	uint64_t image_shift;
};

/* A build-id that the recording has for a path; which of the files that were under the path had it is not known. */
struct path_build_id {
	struct path_build_id *next; /* older one of the same hash */
	const char *path;
	struct elf_id build_id;
};

struct dso_table {
	struct pool pool;
	struct dso *newest;
	struct hash_table dsos, path_build_ids; /* private */
	uint32_t nr;
	/* Names of objects that are added from now on are not demangled: those of programs; those of the kernel. */
	bool no_demangle, no_demangle_kernel;
	struct span file_ids;       /* borrowed: FEATURE_MAPPED_FILES; ptr NULL: the recording has none */
	struct file_builds builds;  /* from that, when it is first needed */
	struct span perf_maps;      /* borrowed: FEATURE_PERF_MAPS; likewise */
	bool keeps_none;            /* the recorder did not look for objects: it can have kept none */
	bool of_another_machine;    /* a machine of another name made the recording; false also where it has no name */
	bool of_this_boot;          /* and it was not booted since: devices have the recorded numbers */
	struct mapping_times times; /* of the recording */
	const char *bundle; /* borrowed: copies that came with the recording, laid out as ~/.debug; NULL: none */
	const char *cache;  /* borrowed: struct symbol_options */
	struct downloads *downloads;        /* borrowed; NULL: nothing is downloaded */
	struct container_files *containers; /* of symbol_options; NULL: no container of now may have its objects */
};

const char *dso_long_name(const struct dso *dso);  /* "/usr/lib/libc.so.6", "[kernel.kallsyms]" */
const char *dso_short_name(const struct dso *dso); /* "libc.so.6", "[kernel.kallsyms]", "[vdso]" */

/* As script prints it: the long name; of a module that no build-id of the recording names, "[module]". */
const char *dso_printed_name(const struct dso *dso);

void dso_table_fini(struct dso_table *table);

/* The dso of that name, id and kind, made when there is none. An unknown id (NULL) equals any. NULL: out of memory. */
struct dso *dso_find(struct dso_table *table, const char *name, const struct object_id *id, enum dso_kind kind);
/* Whether the recording says that the file is no ELF file: its code was compiled at run time. */
bool dso_has_code_alone(struct dso_table *table, const struct file_id *file);
void dso_note_mapped(struct dso *dso, uint64_t time_ns); /* a process mapped the object then */

/*
 * The DSO_PERFMAP of the program that a process runs since program_ns, the time of its record; 0: since before the
 * first record. Names of code end with the program. NULL: out of memory.
 */
struct dso *dso_find_code(struct dso_table *table, uint32_t pid, uint64_t program_ns);
/* NULL: that has not made it. */
struct dso *dso_peek_code(const struct dso_table *table, uint32_t pid, uint64_t program_ns);

/* Adds a build-id of a path, from the recording; to be called before an object of that name is loaded. 0 or -ENOMEM. */
int dso_learn_build_id(struct dso_table *table, const char *path, const struct elf_id *build_id);

/* Notes that the process of a DSO_PERFMAP has mapped a jitdump. The jitdump is read now, if it is the same file. */
void dso_learn_jitdump(struct dso *dso, const char *path, const struct object_id *id, const char *symfs);

/*
 * Reads the symbols of a dso, once; not for the kernel and its modules. What cannot be read is left out, and so are
 * files that are not the file that was mapped, see dso_doubt.
 */
void dso_load(struct dso *dso, const char *symfs);

/* Sets ret[] to at most `max` objects that were looked up and have a doubt, most often first. Returns their number. */
size_t dso_list_doubts(const struct dso_table *table, const struct dso *ret[], size_t max);
char *dso_doubt_text(const struct dso *dso); /* a sentence, on the heap; NULL: no doubt, or out of memory */

/*
 * Sets *ret, on the heap, to path number `index` of those at which debug information of that build-id may be; NULL: no
 * path of that number. false: `index` is past the last one.
 */
bool dso_debug_path(const struct dso *dso, unsigned index, char **ret);

enum dso_part { DSO_RUNTIME /* what was mapped */, DSO_DEBUG /* a file with its debug information */ };

/* A file of an object that was loaded, to be closed by the caller, or -ENOENT. */
int dso_open(const struct dso *dso, const char *symfs, enum dso_part part);
