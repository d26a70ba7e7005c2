/* SPDX-License-Identifier: MIT */
/*
 * model: the rows of the view: which entries of which table are there, which call trees are open, where the user has
 * gone. Knows nothing of a terminal. Private to the room; one owner, one thread.
 *
 * A row is an entry or a line of its call tree. Rows have no numbers: one goes from row to row, so that what is not
 * visible costs nothing, however many there are. Trees are made when they are looked at.
 *
 * Of a tree of keys (--hierarchy) the nodes that are open are the entries: sums, and the leaves, which have call trees.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "cmd/view/view.h"

struct buf;

/* A frame of a call tree, in the order in which they stand below their entry. */
struct branch {
	uint64_t period;
	uint64_t baseline; /* of what is compared: the period there */
	uint32_t frame;    /* in the stacks */
	uint32_t parent;   /* the head of the run that it belongs to, or that a head comes from, from 1; 0: the entry */
	uint32_t end;      /* the index behind the last branch below it */
	uint16_t depth;    /* of the run, from 1 */
	bool head;         /* the first frame of a run without a branch: it has a share, and can be closed */
	bool foldable;     /* something is below it */
	bool open;
};

/* The call tree of an entry. */
struct branches {
	struct branch *all; /* heap */
	uint32_t nr;
	bool open;
};

struct row {
	size_t entry;    /* index in `shown`, or `nodes` */
	uint32_t branch; /* from 1; 0: the entry itself */
};

enum zoom_kind { ZOOM_COMM, ZOOM_THREAD, ZOOM_DSO, ZOOM_SYMBOL, ZOOM_KERNEL, ZOOM_SOCKET };

/* By names: the data may be read again while it is there. */
struct zoom {
	enum zoom_kind kind;
	uint32_t tid;
	int32_t socket;
	char *name, *dso; /* heap; of the function, object or command; NULL: any */
};

enum { MODEL_ZOOMS = 8, MODEL_FILTER = 64 };

/* Lets the user end a count that takes long. */
struct model_watch {
	bool (*ends)(void); /* does the user want it to end? */
	uint32_t nr_cells;  /* that were looked at */
	bool ended;
};

struct model {
	const struct view_data *data;
	struct count_options count; /* the rules of the data, and zooms before them */
	size_t event;
	struct hist **hists; /* heap; of the members of the event */
	unsigned nr_hists;
	struct hist_entry *const *entries;
	size_t nr_entries;
	uint32_t *shown; /* heap; indices of entries */
	size_t nr_shown;
	struct hierarchy *hierarchy;   /* of the first hist; NULL: a table */
	struct hierarchy_node **nodes; /* heap, room for all; those that are seen, nr_shown of them */
	uint64_t *totals;              /* heap; what is 100 %, of each hist */
	uint64_t nr_samples;           /* of the table */
	bool relative, all_open;
	double percent_limit;
	unsigned sort_member;          /* of what is compared: by the difference of that one; 0: by the baseline */
	char filter[MODEL_FILTER];     /* part of a name; "": none */
	char opened_for[MODEL_FILTER]; /* the filter for which levels were opened */
	struct model_watch *watch;     /* borrowed, while model_zoom() counts; NULL: there is none */
	struct zoom zooms[MODEL_ZOOMS];
	unsigned nr_zooms;
	struct calltree tree;    /* for making branches */
	struct calltree before;  /* of what is compared: those of the baseline */
	struct hash_table trees; /* struct branches, by the address of the entry */
	struct row cursor;
};

/* The data is borrowed. 0 or -ENOMEM. */
int model_new(const struct view_data *data, struct model **ret);
void model_free(struct model *model); /* NULL is fine */

/* Counts again: after the data, the event, the zooms or how it is counted have changed. The cursor and open trees
 * stay at the same entries, as far as these still exist. 0 or -ENOMEM. */
int model_recount(struct model *model);

/* After the filter, limit or kind of share has changed: chooses the entries again. 0 or -ENOMEM. */
int model_choose(struct model *model);

bool model_children(const struct model *model); /* callers are counted */
bool model_has_chains(const struct model *model);

/* false: there is no row at all. */
bool model_has_row(const struct model *model, struct row row);
/* Moves to the row above or below; false: there is none, and the row stays. */
bool model_down(struct model *model, struct row *row);
bool model_up(struct model *model, struct row *row);
struct row model_last(struct model *model);
/* To a row that is there and visible. */
void model_normalize(struct model *model, struct row *row);
/* Closes all trees and goes to the first row: before another event is chosen. */
void model_forget(struct model *model);

struct hist_entry *model_entry(const struct model *model, struct row row);
/* Of a tree of keys, that of an entry; NULL: a table, or a line of a call tree. */
const struct hierarchy_node *model_node(const struct model *model, struct row row);
/* Is the row about one value of that key? */
bool model_row_has(const struct model *model, struct row row, enum hist_column key);
const struct branch *model_branch(struct model *model, struct row row); /* NULL: the row is an entry */
/* Of an entry or a branch that can be opened '+', that is open '-', else ' '. */
char model_sign(struct model *model, struct row row);
double model_share(const struct model *model, uint64_t period);
/* The part of an entry that the event of a group or the file of that number has; NULL: none. */
const struct hist_entry *model_part(const struct hist_entry *entry, unsigned member);
/* Of what is compared: by how many percent the share of that file is larger than in the baseline. */
double model_delta(const struct model *model, uint64_t before, uint64_t after, unsigned member);
unsigned model_compared(const struct model *model); /* the file whose call trees are compared, from 1 on */

/* What annotation and zooming are about: the place of an entry, or that of the frame of a branch. comm and task NULL,
 * and no object and function, where the row is not about a single one. */
struct hist_place model_place(struct model *model, struct row row);

/* The processor socket of a place; -1: the table has no such key, or it is not known. */
int32_t model_socket(const struct model *model, const struct hist_place *place);

/* '+': one level of the row; 'e': all of its entry, or all levels below; 'E', 'C': all entries. */
void model_toggle(struct model *model, struct row row);
void model_toggle_entry(struct model *model, struct row row);
void model_close_entry(struct model *model, struct row row); /* 'c' */
void model_open_all(struct model *model);
void model_close_all(struct model *model);

/* Only samples like that place from now on. 0; -ENOENT: the place has none of that kind; -ENOSPC: too many; -EINTR: it
 * ended as ends() said, NULL: never; -ENOMEM. */
int model_zoom(struct model *model, enum zoom_kind kind, const struct hist_place *place, bool (*ends)(void));
uint32_t model_cells(const struct model *model);       /* that a count goes through */
bool model_zoom_out(struct model *model, int *reterr); /* false: there was none */

/* "Thread: bash(123), Symbol: main": escaped; nothing when there is no zoom. */
void model_put_zooms(const struct model *model, struct buf *out);

/* Is the cell among what is counted now? */
bool model_counts(const struct model *model, const struct tally_cell *cell);
