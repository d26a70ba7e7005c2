/* SPDX-License-Identifier: MIT */
#include "analyze/dso.h"

#include <libgen.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

const char *dso_long_name(const struct dso *dso)
{
	return dso->name;
}

const char *dso_short_name(const struct dso *dso)
{
	return dso->short_name;
}

void dso_table_fini(struct dso_table *table)
{
	for (size_t i = 0; i < sizeof(table->chains) / sizeof(table->chains[0]); i++)
		for (struct dso *dso = table->chains[i]; dso; dso = dso->next)
			symbols_fini(&dso->symbols);
	pool_fini(&table->pool);
	*table = (struct dso_table){0};
}

static bool id_unknown(const struct dso_id *id)
{
	return !id->major && !id->minor && !id->inode && !id->generation;
}

static bool id_equal(const struct dso_id *a, const struct dso_id *b)
{
	return a->major == b->major && a->minor == b->minor && a->inode == b->inode &&
	       a->generation == b->generation;
}

/* "/lib/modules/…/kvm-amd.ko.xz" is shown as "[kvm_amd]". */
static char *module_short_name(struct pool *pool, const char *name)
{
	const char *base = strrchr(name, '/');
	char text[256];

	base = base ? base + 1 : name;
	if (base[0] == '[')
		return pool_text(pool, base, strlen(base));
	const char *suffix = strstr(base, ".ko");
	snprintf(text, sizeof(text), "[%.*s]", (int)(suffix ? suffix - base : (long)strlen(base)), base);
	for (char *at = text; *at; at++)
		if (*at == '-')
			*at = '_';
	return pool_text(pool, text, strlen(text));
}

static const char *make_short_name(struct pool *pool, const char *name, enum dso_kind kind)
{
	int tid;
	char text[64];

	switch (kind) {
	case DSO_KERNEL:
	case DSO_KSYMBOL:
	case DSO_VDSO:
		return name;
	case DSO_MODULE:
		return module_short_name(pool, name);
	default:
		break;
	}
	if (sscanf(name, "/tmp/perf-%d.map", &tid) == 1) {
		snprintf(text, sizeof(text), "[JIT] tid %d", tid);
		return pool_text(pool, text, strlen(text));
	}
	char *copy = pool_text(pool, name, strlen(name));
	return copy ? basename(copy) : NULL;
}

static unsigned name_hash(const char *name)
{
	unsigned hash = 5381;

	while (*name)
		hash = hash * 33 + (unsigned char)*name++;
	return hash ^ hash >> 8 ^ hash >> 16;
}

struct dso *dso_find(struct dso_table *table, const char *name, const struct dso_id *id, enum dso_kind kind)
{
	struct dso **chain =
		&table->chains[name_hash(name) % (sizeof(table->chains) / sizeof(table->chains[0]))];
	static const struct dso_id unknown;

	if (!id)
		id = &unknown;
	for (struct dso *dso = *chain; dso; dso = dso->next) {
		if (strcmp(dso->name, name) != 0 ||
		    (!id_unknown(id) && !id_unknown(&dso->id) && !id_equal(id, &dso->id)))
			continue;
		if (id_unknown(&dso->id))
			dso->id = *id;
		return dso;
	}
	struct dso *dso = pool_take(&table->pool, sizeof(*dso));
	if (!dso)
		return NULL;
	dso->name = pool_text(&table->pool, name, strlen(name));
	dso->short_name = dso->name ? make_short_name(&table->pool, dso->name, kind) : NULL;
	if (!dso->short_name)
		return NULL;
	dso->id = *id;
	dso->kind = kind;
	dso->age = ++table->nr;
	dso->bundle = table->bundle;
	dso->next = *chain;
	*chain = dso;
	return dso;
}
