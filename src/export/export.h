/* SPDX-License-Identifier: MIT */
/*
 * export: writes a profile in a format of another program, while the caller reads the recording. This room knows
 * formats, and nothing of perf.data. One owner, one thread.
 *
 * Objects, frames, threads, cgroups and stacks are announced once, before anything refers to them, with numbers from 1
 * on without a gap; of a stack, its outer part is announced before. Texts are borrowed for the call; they may hold any
 * bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;
struct exporter;

/* What the periods of an event count: occurrences; nanoseconds on a CPU; nanoseconds off the CPU. */
enum export_unit { EXPORT_COUNT, EXPORT_CPU_NS, EXPORT_OFF_CPU_NS };

/* An event that was recorded; numbers of events are indexes of struct export_profile. */
struct export_event {
	const char *name;
	enum export_unit unit;
	uint64_t period;    /* of each sample, when it is fixed */
	uint64_t frequency; /* samples per second, when that is fixed; 0: the period is */
};

/* About the whole. All texts may be NULL: not known. */
struct export_profile {
	const char *title, *command, *hostname, *os_release, *arch, *cpu;
	const struct export_event *events;
	size_t nr_events;
	uint64_t start_ns;      /* of the first sample, on the clock of the samples; 0: unknown */
	uint64_t bytes;         /* of the recording; 0: unknown */
	int64_t wall_offset_ns; /* what to add to that clock to get the time since 1970; 0: unknown */
	/* in formats with one number for each stack: the number of samples, not the sum of periods */
	bool count_samples;
};

enum export_object_kind { EXPORT_FILE, EXPORT_KERNEL, EXPORT_MODULE, EXPORT_GENERATED };

/* A program, a library, the kernel. */
struct export_object {
	const char *path, *name; /* name: short, "libc.so.6", "[kvm]" */
	const uint8_t *build_id; /* NULL: unknown */
	size_t build_id_bytes;
	enum export_object_kind kind;
};

/* A function in a stack. Several at one address come innermost first, each `inlined` into the next. */
struct export_frame {
	const char *function; /* NULL: unknown */
	const char *file;     /* NULL: unknown */
	uint32_t object;      /* number; 0: unknown */
	uint32_t line;        /* 0: unknown */
	uint64_t address;     /* in the object's file; in memory when there is no file */
	uint64_t start;       /* of the function, likewise; valid when it is known */
	bool inlined, kernel;
};

/* A thread with one of its names; with another name it is another thread. */
struct export_thread {
	uint32_t pid, tid; /* UINT32_MAX: unknown */
	const char *comm;
};

struct export_sample {
	uint64_t time_ns; /* 0: unknown */
	uint64_t period;
	uint32_t event, thread, stack; /* index; number; number */
	uint32_t cgroup;               /* number; 0: unknown */
	int32_t cpu;                   /* -1: unknown */
};

/* Something that happened to a thread or a CPU, other than a sample. */
enum export_marker_kind { EXPORT_FORK, EXPORT_EXIT, EXPORT_COMM, EXPORT_EXEC, EXPORT_LOST };

struct export_marker {
	enum export_marker_kind kind;
	uint64_t from_ns, to_ns; /* equal: a moment */
	uint32_t thread;         /* number; 0: none, it belongs to a CPU */
	int32_t cpu;             /* -1: unknown */
	uint64_t count;          /* EXPORT_LOST: records */
	const char *text;        /* EXPORT_LOST: the cause; of others the name of `thread`, as it was announced */
};

/* A part of an object that a process mapped. */
struct export_map {
	uint64_t time_ns, start, end, offset; /* offset in the file */
	uint32_t pid, object;                 /* number of the object */
};

/*
 * One format. A function is NULL when the format cannot store what it is for. All return 0 or -errno, with the reason
 * in a diag unless it is -ENOMEM or an error of the output.
 */
struct export_format {
	const char *name, *suffix;   /* of a file: ".pb.gz" */
	const char *about;           /* one line for --help */
	bool by_address;             /* needs a frame for each address of a function */
	bool needs_file;             /* cannot go into a pipe */
	bool one_event, needs_times; /* can store one event only; no samples without a time */
	size_t state_bytes;          /* of a struct that begins with a struct exporter */
	int (*open)(struct exporter *exporter, struct diag *reterr);
	int (*object)(struct exporter *exporter, uint32_t number, const struct export_object *object);
	int (*frame)(struct exporter *exporter, uint32_t number, const struct export_frame *frame);
	int (*stack)(struct exporter *exporter, uint32_t number, uint32_t outer, uint32_t frame);
	int (*thread)(struct exporter *exporter, uint32_t number, const struct export_thread *thread);
	int (*cgroup)(struct exporter *exporter, uint32_t number, const char *path);
	int (*sample)(struct exporter *exporter, const struct export_sample *sample);
	int (*marker)(struct exporter *exporter, const struct export_marker *marker);
	int (*map)(struct exporter *exporter, const struct export_map *map);
	int (*close)(struct exporter *exporter, struct diag *reterr); /* writes what is left */
	void (*free)(struct exporter *exporter);                      /* after a failure, too */
};

/* What all formats have. */
struct exporter {
	const struct export_format *format;
	struct export_profile profile; /* borrowed texts */
	int fd;                        /* where the bytes go; the caller's */
	const char *path;              /* of that file, for libraries that open it themselves; NULL: it has none */
	const void *store;             /* options of the server, if it goes to one */
	struct diag *why;              /* diag for sample() and the other functions without a reterr */
};

/* The formats of this build; ends with NULL. */
extern const struct export_format *const export_formats[];

/* The format with that name; NULL: none, the diag lists those that there are. */
const struct export_format *export_format_find(const char *name, struct diag *reterr);

/*
 * Opens an exporter into an empty file that is open for writing, or to a server. 0, or -errno and why; reterr is used
 * by all later calls.
 */
struct export_target {
	int fd;
	const char *path;  /* for libraries that open a file by its name; NULL: it has none */
	const char *name;  /* for messages */
	const void *store; /* the options of a server (store/store.h); NULL: it is a file */
};
int export_open(const struct export_format *format, const struct export_profile *profile,
		const struct export_target *target, struct exporter **ret, struct diag *reterr);

/* Writes what is left. 0, or -errno and why. export_free() must follow. */
int export_close(struct exporter *exporter, struct diag *reterr);
void export_free(struct exporter *exporter); /* NULL is fine */
