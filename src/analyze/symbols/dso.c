/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/dso.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/symbols/elf.h"
#include "analyze/symbols/jit_code.h"
#include "analyze/symbols/symbol_text.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/span.h"
#include "compress/zstd.h"
#include "perfdata/perf_maps.h"
#include "sysinfo/object_file.h"

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
	for (struct dso *dso = table->newest; dso; dso = dso->next) {
		symbols_fini(&dso->symbols);
		jit_code_free(dso->jit);
	}
	hash_table_fini(&table->dsos);
	hash_table_fini(&table->path_build_ids);
	file_builds_fini(&table->builds);
	pool_fini(&table->pool);
	*table = (struct dso_table){0};
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
	int tid, end = 0;
	char text[64];

	switch (kind) {
	case DSO_KERNEL:
	case DSO_KSYMBOL:
	case DSO_VDSO: return name;
	case DSO_MODULE: return module_short_name(pool, name);
	default: break;
	}
	if (sscanf(name, "/tmp/perf-%d.map%n", &tid, &end) == 1 && end && !name[end]) {
		snprintf(text, sizeof(text), "[JIT] tid %d", tid);
		return pool_text(pool, text, strlen(text));
	}
	char *copy = pool_text(pool, name, strlen(name));
	return copy ? basename(copy) : NULL;
}

static void dso_set_id(struct dso *dso, const struct object_id *id)
{
	dso->id = *id;
	if (id->build_id.len)
		dso->build_id = id->build_id;
}

/* As the newest of its hash. 0 or -ENOMEM. */
static int table_put(struct hash_table *table, uint64_t hash, void *item)
{
	struct hash_slot *slot = hash_table_find(table, hash);

	if (!slot)
		return hash_table_add(table, hash, item);
	slot->item = item;
	return 0;
}

static const struct object_id unknown_id;

static struct object_id without_generation(const struct object_id *id)
{
	struct object_id ret = *id;

	ret.file.generation = 0;
	return ret;
}

/* The same for ids that are equal, see elf_id_equal(). */
static uint64_t elf_id_hash(const struct elf_id *id)
{
	uint8_t bytes[ELF_ID_MAX_BYTES] = {0};

	memcpy(bytes, id->bytes, id->len);
	return hash_bytes(bytes, sizeof(bytes));
}

/* What finds an object. There may be very many of one name: a path had another file each time it was mapped. */
struct dso_key {
	const char *name;
	uint64_t name_hash;
	const struct object_id *id;
	enum dso_kind kind;
};

static uint64_t key_hash(const struct dso_key *key)
{
	const struct file_id *file = &key->id->file;
	uint64_t hash = hash_mix(key->name_hash, key->kind);

	if (object_id_unknown(key->id))
		return hash;
	if (key->id->build_id.len)
		return hash_mix(hash, elf_id_hash(&key->id->build_id));
	hash = hash_mix(hash_mix(hash, (uint64_t)file->major << 32 | file->minor), file->inode);
	return hash_mix(hash, file->generation);
}

static struct hash_slot *find_slot(const struct dso_table *table, const struct dso_key *key, uint64_t hash)
{
	struct hash_slot *slot = hash_table_find(&table->dsos, hash);

	for (; slot; slot = hash_table_next(&table->dsos, slot)) {
		const struct dso *dso = slot->item;
		if (dso->kind == key->kind && strcmp(dso->name, key->name) == 0 && object_id_equal(key->id, &dso->id))
			break;
	}
	return slot;
}

static struct dso *find_newest(const struct dso_table *table, struct dso_key key, const struct object_id *id)
{
	key.id = id;
	struct hash_slot *slot = find_slot(table, &key, key_hash(&key));

	return slot ? slot->item : NULL;
}

/* What the object is found by, if it was not so far: its id; its id without the generation; the name alone. */
enum { KEYS_ID = 1, KEYS_FILE = 2, KEYS_NAME = 3 };

/* As the newest. 0 or -ENOMEM. */
static int put_keys(struct dso_table *table, struct dso_key key, struct dso *dso, unsigned nr_keys)
{
	const struct object_id ids[] = {dso->id, without_generation(&dso->id), unknown_id};

	for (unsigned i = 0; i < nr_keys; i++) {
		key.id = &ids[i];
		uint64_t hash = key_hash(&key);
		struct hash_slot *slot = find_slot(table, &key, hash);
		if (slot)
			slot->item = dso;
		else if (hash_table_add(&table->dsos, hash, dso))
			return -ENOMEM;
	}
	return 0;
}

static struct dso *dso_add(struct dso_table *table, const struct dso_key *key)
{
	struct dso *dso = pool_take(&table->pool, sizeof(*dso));

	if (!dso)
		return NULL;
	dso->name = pool_text(&table->pool, key->name, strlen(key->name));
	dso->short_name = dso->name ? make_short_name(&table->pool, dso->name, key->kind) : NULL;
	if (!dso->short_name)
		return NULL;
	dso_set_id(dso, key->id);
	dso->mapped_ns = UINT64_MAX;
	dso->kind = key->kind;
	dso->table = table;
	dso->symbols.no_demangle =
		key->kind == DSO_KERNEL || key->kind == DSO_MODULE ? table->no_demangle_kernel : table->no_demangle;
	dso->next = table->newest;
	table->newest = dso;
	dso->age = ++table->nr;
	return put_keys(table, *key, dso, KEYS_NAME) ? NULL : dso;
}

struct dso *dso_find(struct dso_table *table, const char *name, const struct object_id *id, enum dso_kind kind)
{
	const struct dso_key key = {name, hash_text(name), id ? id : &unknown_id, kind};
	struct dso *dso = find_newest(table, key, key.id);

	if (dso)
		return dso;
	if (object_id_unknown(key.id))
		return dso_add(table, &key);
	/* One whose generation, or id, is unknown so far: it is the only one of that file, or name. */
	const struct object_id file = without_generation(key.id);
	unsigned nr_keys = KEYS_ID;
	dso = find_newest(table, key, &file);
	if (!dso || dso->id.file.generation) {
		nr_keys = KEYS_FILE;
		dso = find_newest(table, key, &unknown_id);
		if (!dso || !object_id_unknown(&dso->id))
			return dso_add(table, &key);
	}
	dso_set_id(dso, key.id);
	return put_keys(table, key, dso, nr_keys) ? NULL : dso;
}

enum { CODE_NAME_BYTES = 48 };

/* As files of one name are told apart; an unknown inode would equal any. */
static struct object_id code_name(char name[CODE_NAME_BYTES], uint32_t pid, uint64_t program_ns)
{
	snprintf(name, CODE_NAME_BYTES, "/tmp/perf-%d.map", (int)pid);
	return (struct object_id){.file = {.inode = program_ns + 1}};
}

struct dso *dso_peek_code(const struct dso_table *table, uint32_t pid, uint64_t program_ns)
{
	char name[CODE_NAME_BYTES];
	const struct object_id id = code_name(name, pid, program_ns);

	return find_newest(table, (struct dso_key){name, hash_text(name), &id, DSO_PERFMAP}, &id);
}

struct dso *dso_find_code(struct dso_table *table, uint32_t pid, uint64_t program_ns)
{
	char name[CODE_NAME_BYTES];
	const struct object_id id = code_name(name, pid, program_ns);
	struct dso *dso = dso_find(table, name, &id, DSO_PERFMAP);
	if (dso)
		dso->program_ns = program_ns;
	return dso;
}

void dso_note_mapped(struct dso *dso, uint64_t time_ns)
{
	if (time_ns < dso->mapped_ns)
		dso->mapped_ns = time_ns;
}

/* The build-ids of a path, one after the other; NULL: no more. Begin with NULL. */
static const struct path_build_id *next_build_id(const struct dso_table *table, const char *path,
						 const struct path_build_id *after)
{
	const struct path_build_id *at =
		after ? after->next : hash_table_find_item(&table->path_build_ids, hash_text(path));

	while (at && strcmp(at->path, path) != 0)
		at = at->next;
	return at;
}

static uint64_t path_build_id_hash(const char *path, const struct elf_id *id)
{
	return hash_mix(hash_text(path), elf_id_hash(id));
}

/* That one of a path; NULL: it is not among those of the path. */
static const struct path_build_id *find_build_id(const struct dso_table *table, const char *path,
						 const struct elf_id *id)
{
	const struct hash_slot *slot = hash_table_find(&table->path_build_ids, path_build_id_hash(path, id));

	for (; slot; slot = hash_table_next(&table->path_build_ids, slot)) {
		const struct path_build_id *at = slot->item;
		if (elf_id_equal(&at->build_id, id) && strcmp(at->path, path) == 0)
			return at;
	}
	return NULL;
}

const char *dso_printed_name(const struct dso *dso)
{
	return dso->kind == DSO_MODULE && !dso->build_id.len ? dso->short_name : dso->name;
}

int dso_learn_build_id(struct dso_table *table, const char *path, const struct elf_id *build_id)
{
	uint64_t hash = hash_text(path);

	if (find_build_id(table, path, build_id))
		return 0;
	struct path_build_id *known = pool_take(&table->pool, sizeof(*known));
	const char *copy = known ? pool_text(&table->pool, path, strlen(path)) : NULL;
	if (!copy)
		return -ENOMEM;
	*known = (struct path_build_id){
		.next = hash_table_find_item(&table->path_build_ids, hash), .path = copy, .build_id = *build_id};
	return hash_table_add(&table->path_build_ids, path_build_id_hash(path, build_id), known)
		       ? -ENOMEM
		       : table_put(&table->path_build_ids, hash, known);
}

static const char *id_text(const struct elf_id *id, char text[2 * ELF_ID_MAX_BYTES + 1])
{
	strcpy(text, "none");
	for (unsigned i = 0; i < id->len; i++)
		snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
	return text;
}

enum { DUMP_ERROR_BYTES = 96 };

static const char *dump_error_text(int err, char text[DUMP_ERROR_BYTES])
{
	if (err == -EBADMSG)
		return "it is no jitdump of this byte order";
	if (err != -EFBIG)
		return strerror(-err);
	snprintf(text, DUMP_ERROR_BYTES, "it has more than %d MiB, or more than %d functions", JIT_MAX_BYTES >> 20,
		 JIT_MAX_FUNCTIONS);
	return text;
}

char *dso_doubt_text(const struct dso *dso)
{
	char dump_text[DUMP_ERROR_BYTES];
	char expected[2 * ELF_ID_MAX_BYTES + 1], found[2 * ELF_ID_MAX_BYTES + 1];
	const struct file_id *file = &dso->id.file;
	char *text = NULL;
	unsigned pid;
	int len = -1;

	switch (dso->doubt.why) {
	case DSO_TRUSTED: break;
	case DSO_OTHER_BUILD:
		len = asprintf(&text,
			       "%s is not the file that was recorded: it has changed since, or was in another mount "
			       "namespace (build-id %s expected, %s found): its functions are not named",
			       dso->name, id_text(&dso->build_id, expected), id_text(&dso->doubt.found, found));
		break;
	case DSO_OTHER_FILE:
		len = asprintf(&text,
			       "%s is not the file that was recorded (%u:%u inode %" PRIu64 " expected, inode %" PRIu64
			       " found, no build-id recorded): its functions are not named",
			       dso->name, file->major, file->minor, file->inode, dso->doubt.found_inode);
		break;
	case DSO_WRITTEN:
		len = asprintf(
			&text,
			"%s was written to after it was mapped, or just before, and no build-id of it was recorded: "
			"its functions are not named",
			dso->name);
		break;
	case DSO_ELSEWHERE:
		len = asprintf(
			&text,
			"%s was recorded on another machine, without a build-id, and may be another file here: its "
			"functions are not named; link it with --build-id, or use --symfs=/. if it is the same",
			dso->name);
		break;
	case DSO_FOREIGN_MAP:
		len = asprintf(&text,
			       "%s is not read: it has to be a regular file of root or of the user who reads, of at "
			       "most %d MiB; code compiled at run time is not named",
			       dso->name, PERF_MAP_MAX_BYTES >> 20);
		break;
	case DSO_MAP_NOT_KEPT:
		len = asprintf(&text, "record did not keep %s: %s; code compiled at run time is not named", dso->name,
			       perf_map_missing_text(dso->doubt.missing));
		break;
	case DSO_OTHER_MAP:
		len = asprintf(&text,
			       "%s was written by another program that the process ran before or later; code of this "
			       "one, compiled at run time, is not named",
			       dso->name);
		break;
	case DSO_DUMP_REFUSED:
		if (sscanf(dso->name, "/tmp/perf-%u.map", &pid) == 1)
			len = asprintf(
				&text,
				"the jitdump of process %u is not read: %s; code compiled at run time is not named",
				pid, dump_error_text(dso->doubt.dump_error, dump_text));
		break;
	}
	return len < 0 ? NULL : text;
}

/* Those that were looked up more often; of equals the older one. */
static bool comes_before(const struct dso *dso, const struct dso *other)
{
	return dso->doubt.nr_uses != other->doubt.nr_uses ? dso->doubt.nr_uses > other->doubt.nr_uses
							  : dso->age < other->age;
}

size_t dso_list_doubts(const struct dso_table *table, const struct dso *ret[], size_t max)
{
	size_t nr = 0, kept = 0;

	for (const struct dso *dso = table->newest; dso; dso = dso->next) {
		if (!dso->doubt.why || !dso->doubt.nr_uses)
			continue;
		nr++;
		size_t at = kept < max ? kept++ : max;
		for (; at && comes_before(dso, ret[at - 1]); at--)
			if (at < max)
				ret[at] = ret[at - 1];
		if (at < max)
			ret[at] = dso;
	}
	return nr;
}

/* Where the symbols of an object are looked for: the places of perf 6.1, in its order. */

/* In a directory that is laid out as perf's cache. */
static char *copy_path(const char *directory, const struct elf_id *id, const char *leaf)
{
	char text[2 * ELF_ID_MAX_BYTES + 1], *path;

	if (!id->len || !directory)
		return NULL;
	id_text(id, text);
	return asprintf(&path, "%s/.build-id/%.2s/%s/%s", directory, text, text + 2, leaf) < 0 ? NULL : path;
}

/*
 * Where perf keeps copies of what was recorded; with symfs, those below it, but for a directory that the user names.
 * Source: perf-buildid-cache(1).
 */
static char *cache_path(const struct dso *dso, const struct elf_id *id, const char *symfs, const char *leaf)
{
	const char *home = symfs[0] ? symfs : getenv("HOME");
	AUTO_FREE char *directory = NULL;

	if (dso->table->cache)
		return copy_path(dso->table->cache, id, leaf);
	if (!home || asprintf(&directory, "%s/.debug", home) < 0) {
		directory = NULL;
		return NULL;
	}
	return copy_path(directory, id, leaf);
}

/* What debuginfod-find(1), gdb and others have downloaded; nothing is downloaded here. NULL: with symfs, too. */
static char *debuginfod_path(const struct elf_id *id, const char *symfs, const char *leaf)
{
	const char *directory = getenv("DEBUGINFOD_CACHE_PATH"), *cache = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");
	char text[2 * ELF_ID_MAX_BYTES + 1], *path;
	int len;

	if (!id->len || symfs[0])
		return NULL;
	id_text(id, text);
	if (directory)
		len = asprintf(&path, "%s/%s/%s", directory, text, leaf);
	else if (cache)
		len = asprintf(&path, "%s/debuginfod_client/%s/%s", cache, text, leaf);
	else
		len = home ? asprintf(&path, "%s/.cache/debuginfod_client/%s/%s", home, text, leaf) : -1;
	return len < 0 ? NULL : path;
}

static char *build_id_debug_path(const struct elf_id *id, const char *symfs)
{
	char text[2 * ELF_ID_MAX_BYTES + 1], *path;

	if (!id->len)
		return NULL;
	id_text(id, text);
	if (asprintf(&path, "%s/usr/lib/debug/.build-id/%.2s/%s.debug", symfs, text, text + 2) < 0)
		return NULL;
	return path;
}

static bool is_regular(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* The file that .gnu_debuglink names: beside the object, in .debug below it, or under /usr/lib/debug. */
static char *debuglink_path(const struct dso *dso, const char *symfs)
{
	static const char *const forms[] = {"%s%.*s/%s", "%s%.*s/.debug/%s", "%s/usr/lib/debug%.*s/%s"};
	const char *slash = strrchr(dso->name, '/');
	AUTO_FREE char *path = NULL;

	if (!slash || asprintf(&path, "%s%s", symfs, dso->name) < 0)
		return NULL;
	AUTO_FREE char *link = elf_file_debuglink(path).name;
	for (size_t i = 0; link && i < sizeof(forms) / sizeof(forms[0]); i++) {
		char *found;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		if (asprintf(&found, forms[i], symfs, (int)(slash - dso->name), dso->name, link) < 0)
			return NULL;
#pragma GCC diagnostic pop
		if (is_regular(found))
			return found;
		free(found);
	}
	return NULL;
}

static char *plain_path(const char *symfs, const char *before, const char *name, const char *behind)
{
	char *path;

	return asprintf(&path, "%s%s%s%s", symfs, before, name, behind) < 0 ? NULL : path;
}

/* Where copies are: also of a file without a build-id. */
static const struct elf_id *id_of_copy(const struct dso *dso)
{
	return dso->copy_id.len ? &dso->copy_id : &dso->build_id;
}

/* What has its build-id otherwise may be of another file. */
static bool has_copy_alone(const struct dso *dso)
{
	return dso->build_id.len && dso->copy_id.len && !dso->has_itself;
}

enum file_place {
	PLACE_BUNDLE_DEBUG,
	PLACE_BUNDLE,
	PLACE_DEBUGLINK,
	PLACE_CACHE,
	PLACE_CACHE_DEBUG,
	PLACE_LIB_DEBUG_SUFFIX,
	PLACE_LIB_DEBUG,
	PLACE_BUILD_ID,
	PLACE_DEBUGINFOD_DEBUG,
	PLACE_DEBUGINFOD,
	PLACE_ITSELF,
	PLACE_LAST = PLACE_ITSELF,
};

/* On the heap; NULL: this place has none. */
static char *place_path(const struct dso *dso, const char *symfs, enum file_place place)
{
	bool vdso = dso->kind == DSO_VDSO;

	switch (place) {
	case PLACE_BUNDLE_DEBUG: return copy_path(dso->table->bundle, &dso->build_id, "debug");
	case PLACE_BUNDLE: return copy_path(dso->table->bundle, id_of_copy(dso), vdso ? "vdso" : "elf");
	case PLACE_DEBUGLINK: return vdso ? NULL : debuglink_path(dso, symfs);
	case PLACE_CACHE: return cache_path(dso, id_of_copy(dso), symfs, vdso ? "vdso" : "elf");
	case PLACE_CACHE_DEBUG: return cache_path(dso, &dso->build_id, symfs, "debug");
	case PLACE_LIB_DEBUG_SUFFIX: return vdso ? NULL : plain_path(symfs, "/usr/lib/debug", dso->name, ".debug");
	case PLACE_LIB_DEBUG: return vdso ? NULL : plain_path(symfs, "/usr/lib/debug", dso->name, "");
	case PLACE_BUILD_ID: return build_id_debug_path(&dso->build_id, symfs);
	case PLACE_DEBUGINFOD_DEBUG: return debuginfod_path(&dso->build_id, symfs, "debuginfo");
	case PLACE_DEBUGINFOD: return debuginfod_path(&dso->build_id, symfs, "executable");
	case PLACE_ITSELF: return vdso ? NULL : plain_path(symfs, "", dso->name, "");
	}
	return NULL;
}

/* The vdso of this process; it is the recorded one when its build-id is. NULL: none. */
static void *vdso_image(size_t *ret_len)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);

	if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return NULL;
	/* Its section headers come last. */
	*ret_len = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	return (void *)(uintptr_t)header;
}

/* Without build-ids only a CRC tells whether a debug file is that of the object, or of another build. */
static bool is_debug_file_of(const struct dso *dso, const char *symfs, const struct elf_source *source)
{
	AUTO_FREE char *path = plain_path(symfs, "", dso->name, "");
	struct elf_debuglink link = path ? elf_file_debuglink(path) : (struct elf_debuglink){0};
	bool is_linked = link.name && elf_source_has_crc(source, link.crc);

	free(link.name);
	return is_linked;
}

/* Whether no build-id, but where it is shows that it is of this object. */
static bool is_copy(const struct dso *dso, enum file_place place)
{
	return !dso->build_id.len && dso->copy_id.len && (place == PLACE_BUNDLE || place == PLACE_CACHE);
}

static int place_open(const struct dso *dso, const char *symfs, enum file_place place, struct elf_source *ret)
{
	size_t len;

	if (dso->only_copy && !is_copy(dso, place))
		return -ESTALE;
	if (has_copy_alone(dso) && place != PLACE_BUNDLE && place != PLACE_CACHE)
		return -ESTALE;
	/*
	 * Not with --symfs, where no file of this machine is used; nor for another machine without a build-id, where
	 * nothing would show that its vdso is another one.
	 */
	bool ours = dso->kind == DSO_VDSO && place == PLACE_ITSELF && !*symfs &&
		    (dso->build_id.len || !dso->table->of_another_machine);
	void *image = ours ? vdso_image(&len) : NULL;

	if (image)
		return elf_source_open_image(image, len, &dso->build_id, ret);
	AUTO_FREE char *path = place_path(dso, symfs, place);
	int err = path ? elf_source_open(path, &dso->build_id, ret) : -ENOENT;
	if (!err && !dso->build_id.len && place != PLACE_ITSELF && !is_copy(dso, place) &&
	    !is_debug_file_of(dso, symfs, ret)) {
		elf_source_close(ret);
		err = -ESTALE;
	}
	return err;
}

/*
 * Any user can put a file of that name into /tmp: only those of root and of the user who reads are believed, as in
 * perf. 0 or -errno; -EPERM: it is another user's.
 */
static int read_perf_map(const char *path, struct buf *ret)
{
	AUTO_FD int fd = object_file_open_nofollow(AT_FDCWD, path);
	struct stat status;

	if (fd < 0)
		return fd;
	if (fstat(fd, &status))
		return -errno;
	if (status.st_uid && status.st_uid != geteuid())
		return -EPERM;
	if (status.st_size > PERF_MAP_MAX_BYTES)
		return -EFBIG;
	return fd_slurp_rest(fd, PERF_MAP_MAX_BYTES, ret);
}

static int unpack_perf_map(const struct kept_perf_map *map, struct buf *ret)
{
	struct zstd_unpacker *unpacker;

	if (map->stored.len == map->bytes)
		return buf_put(ret, map->stored.ptr, map->stored.len), ret->failed ? -ENOMEM : 0;
	void *to = buf_extend(ret, map->bytes);
	int err = to ? zstd_unpacker_new(&unpacker) : -ENOMEM;
	if (err)
		return err;
	int64_t bytes = zstd_unpack_frame(unpacker, map->stored, to, map->bytes);
	zstd_unpacker_free(unpacker);
	return bytes < 0 ? (int)bytes : (uint64_t)bytes == map->bytes ? 0 : -EBADMSG;
}

/* That of this machine has the code of another process than that of another machine with its number. */
static int find_perf_map_here(const struct dso *dso, const char *symfs, struct buf *ret)
{
	AUTO_FREE char *path =
		symfs[0] || !dso->table->of_another_machine ? plain_path(symfs, "", dso->name, "") : NULL;

	return path ? read_perf_map(path, ret) : -ENOENT;
}

/*
 * The recorder kept the maps of the processes whose code was sampled: what is in /tmp now may be of another process.
 * 0 or -errno; -ECANCELED: it says why it did not keep this one; -ENOTUNIQ: it is another program's.
 */
static int find_perf_map(const struct dso *dso, const char *symfs, struct buf *ret, uint32_t *ret_missing)
{
	struct cursor at = cursor_over(dso->table->perf_maps);
	struct kept_perf_map map;
	unsigned pid;

	if (!dso->table->perf_maps.ptr)
		return find_perf_map_here(dso, symfs, ret);
	if (sscanf(dso->name, "/tmp/perf-%u.map", &pid) != 1)
		return -ENOENT;
	int err = -ENOENT;
	while (perf_map_next(&at, &map)) {
		const bool other = map.program_known && map.program_ns != dso->program_ns;
		if (map.pid != pid)
			continue;
		if (map.missing == PERF_MAP_KEPT && !other)
			return unpack_perf_map(&map, ret);
		if (map.missing == PERF_MAP_KEPT) {
			err = -ENOTUNIQ;
		} else if (map.missing != PERF_MAP_NONE) {
			*ret_missing = map.missing;
			err = -ECANCELED;
		}
	}
	return err;
}

static void load_perf_map(struct dso *dso, const char *symfs)
{
	AUTO_BUF struct buf text = {0};
	struct perfmap_line line;
	int err = find_perf_map(dso, symfs, &text, &dso->doubt.missing);

	if (err) {
		if (err != -ENOENT && !dso->jit)
			dso->doubt.why = err == -ECANCELED  ? DSO_MAP_NOT_KEPT
					 : err == -ENOTUNIQ ? DSO_OTHER_MAP
							    : DSO_FOREIGN_MAP;
		return;
	}
	struct span rest = buf_span(&text);
	while (perfmap_next(&rest, &line))
		if (line.size <= UINT64_MAX - line.start && /* else it would hide what is behind it */
		    symbols_add(&dso->symbols, line.start, line.size, SYMBOL_GLOBAL, line.name, line.name_len))
			break;
	symbols_fixup(&dso->symbols, SYMBOLS_KEEP_ALIASES | SYMBOLS_ONE_NAME);
	if (dso->symbols.nr)
		dso->doubt.why = DSO_TRUSTED;
}

/* By device and inode, with which the recorder stored what is known of it. */
static bool find_by_file(struct dso_table *table, const struct file_id *file, struct file_build_id *ret)
{
	if (!file->inode || (!table->builds.filled && file_builds_fill(&table->builds, table->file_ids)))
		return false;
	return file_builds_find(&table->builds, file, ret);
}

bool dso_has_code_alone(struct dso_table *table, const struct file_id *file)
{
	struct file_build_id known;

	return find_by_file(table, file, &known) && known.has_code_alone;
}

void dso_learn_jitdump(struct dso *dso, const char *path, const struct object_id *id, const char *symfs)
{
	const struct object_mapping mapped = {.file = id->file};
	bool foreign = !symfs[0] && dso->table->of_another_machine; /* a file of that name is another one */
	bool ours = !symfs[0] && !foreign && dso->table->of_this_boot;
	struct file_build_id known = {.stamp = {0}};
	int err = 0;

	(void)find_by_file(dso->table, &id->file, &known); /* else there is no copy */
	char *const paths[] = {copy_path(dso->table->bundle, &known.copy_id, "dump"),
			       foreign ? NULL : plain_path(symfs, "", path, ""),
			       cache_path(dso, &known.copy_id, symfs, "dump")};
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		AUTO_FD int fd =
			paths[i] && !dso->jit ? object_file_open(paths[i], i == 1 && ours ? &mapped : NULL) : -1;
		int read_err = fd >= 0 ? jit_code_read(fd, &dso->jit) : 0;
		err = read_err ? read_err : err;
		free(paths[i]);
	}
	if (dso->jit)
		dso->lost_dump = NULL;
	if (dso->jit)
		dso->doubt.why = DSO_TRUSTED;
	if (!err && !dso->jit && !dso->lost_dump)
		dso->lost_dump = pool_text(&dso->table->pool, path, strlen(path)); /* NULL: it is not told */
	if (!err || dso->jit || dso->symbols.nr || dso->doubt.why)
		return;
	dso->doubt.why = DSO_DUMP_REFUSED;
	dso->doubt.dump_error = err;
}

/* The file under the name of an object, as it is now. fd -1: there is none. */
struct named_file {
	int fd;
	struct stat status;
	struct elf_id build_id; /* len 0: none */
	bool is_mapped;         /* device, inode and generation are those of the mapping, or not known */
};

static void named_file_close(struct named_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
}

/*
 * Below a --symfs, and on another machine, files are copies with another device and inode. A recording that was cut off
 * does not name its machine: it may be this one.
 */
static bool has_own_files(const struct dso *dso, const char *symfs)
{
	return !symfs[0] && !dso->table->of_another_machine;
}

static bool was_written(const struct dso *dso, const struct named_file *file)
{
	return dso->mapped_ns != UINT64_MAX && file_written_after(&file->status, &dso->table->times, dso->mapped_ns);
}

/* The recording may be of this machine, whose name has changed since: then this is still the file that was mapped. */
static bool is_same_inode(const struct dso *dso, const struct named_file *file)
{
	return dso->id.file.inode && file_id_is(&dso->id.file, file->fd, &file->status, true);
}

/* Other errors say that there is no such file, or what is wrong with it. */
static bool is_refusal(int err)
{
	return err == -EACCES || err == -EPERM || err == -EIO || err == -ESTALE;
}

static void named_file_open(struct dso *dso, const char *symfs, struct named_file *ret)
{
	AUTO_FREE char *path = plain_path(symfs, "", dso->name, "");
	struct elf_source source;

	*ret = (struct named_file){.fd = -1, .is_mapped = true};
	int err = path ? elf_source_open(path, NULL, &source) : -ENOMEM;
	dso->refusal = is_refusal(err) ? err : 0;
	if (err)
		return;
	elf_source_build_id(&source, &ret->build_id);
	ret->fd = source.fd;
	source.fd = -1;
	elf_source_close(&source);
	if (fstat(ret->fd, &ret->status) == 0 && has_own_files(dso, symfs))
		ret->is_mapped = file_id_is(&dso->id.file, ret->fd, &ret->status, !dso->table->of_this_boot);
}

/*
 * Whether a file without a build-id contains what was mapped, as far as is known. `recorded`: NULL: the recorder says
 * nothing of it.
 */
static bool has_contents(const struct dso *dso, const struct file_build_id *recorded, const struct named_file *file,
			 bool is_copy)
{
	const struct file_stamp stamp = file_stamp_of(&file->status);

	if (!recorded)
		return is_copy || !was_written(dso, file);
	return recorded->stamp.bytes && (is_copy || file_stamp_equal(&recorded->stamp, &stamp));
}

/*
 * A recorder that only looked at the path, when the recording ended, has the build-id of the file that was there then.
 * If that is still there and not what was mapped, the build-id is of no use. A file that came later has been checked by
 * its build-id.
 */
static bool was_there_at_end(const struct dso *dso, const struct named_file *file)
{
	int64_t changed_ns = file->status.st_ctim.tv_sec * INT64_C(1000000000) + file->status.st_ctim.tv_nsec;

	return !dso->table->times.end_wall_ns || changed_ns <= dso->table->times.end_wall_ns;
}

static void find_by_path(struct dso *dso, const struct named_file *file)
{
	const struct path_build_id *first = next_build_id(dso->table, dso->name, NULL);

	if (!first || (dso->table->file_ids.ptr && dso->id.file.inode))
		return; /* a build-id of this file would be among file_ids */
	const struct path_build_id *same = find_build_id(dso->table, dso->name, &file->build_id);
	bool several = next_build_id(dso->table, dso->name, first);
	if (same && (file->is_mapped || (!several && !was_there_at_end(dso, file))))
		dso->build_id = same->build_id;
	else if (!same && !several)
		dso->build_id = first->build_id;
}

/* The recording has the build-id of this file, but not for the file that was mapped. */
static bool is_of_another(const struct dso *dso, const struct named_file *file)
{
	return dso->table->file_ids.ptr && dso->id.file.inode && file->build_id.len &&
	       find_build_id(dso->table, dso->name, &file->build_id);
}

/* It has the build-id of the object, if that is known. */
static bool is_mapped_file_of_container(const struct dso *dso, const struct elf_source *source)
{
	struct named_file file = {.fd = source->fd, .is_mapped = true};
	struct file_build_id by_file;

	if (fstat(file.fd, &file.status) || !file_id_is(&dso->id.file, file.fd, &file.status, false))
		return false;
	if (dso->build_id.len)
		return true;
	elf_source_build_id(source, &file.build_id);
	bool recorded = find_by_file(dso->table, &dso->id.file, &by_file);
	return !is_of_another(dso, &file) && has_contents(dso, recorded ? &by_file : NULL, &file, false);
}

/*
 * The file that was mapped, from a container that still lives: by its build-id, and by device and inode if they are
 * known. 0 or -ENOENT.
 */
static int open_in_container(const struct dso *dso, struct elf_source *ret)
{
	bool known = dso->build_id.len || dso->id.file.inode;
	struct container_files *files =
		known && dso->kind == DSO_FILE && dso->name[0] == '/' ? dso->table->containers : NULL;
	unsigned at = 0;
	int fd;

	while (files && (fd = files->open(files, dso->name, &dso->id.file, &at)) >= 0) {
		if (elf_source_open_fd(fd, &dso->build_id, ret))
			continue;
		if (is_mapped_file_of_container(dso, ret))
			return 0;
		elf_source_close(ret);
	}
	return -ENOENT;
}

/* Which build-id the mapped file has, if a container has it. */
static void identify_in_container(struct dso *dso)
{
	struct elf_source source;

	if (open_in_container(dso, &source))
		return;
	dso->in_container = !elf_source_build_id(&source, &dso->build_id);
	elf_source_close(&source);
}

/* Whether the file under its name can be used; if no build-id of the object is known, that has its one. */
static void judge_named_file(struct dso *dso, const char *symfs, const struct file_build_id *recorded,
			     const struct named_file *file)
{
	if (dso->build_id.len) {
		if (!elf_id_equal(&dso->build_id, &file->build_id))
			dso->doubt = (struct dso_doubt){.why = DSO_OTHER_BUILD, .found = file->build_id};
	} else if (!file->is_mapped || is_of_another(dso, file)) {
		dso->doubt = (struct dso_doubt){.why = DSO_OTHER_FILE, .found_inode = file->status.st_ino};
	} else if (!has_contents(dso, recorded, file, !has_own_files(dso, symfs))) {
		dso->doubt = (struct dso_doubt){.why = DSO_WRITTEN};
	} else if (dso->table->of_another_machine && !symfs[0] &&
		   !(is_same_inode(dso, file) && has_contents(dso, recorded, file, false))) {
		dso->doubt = (struct dso_doubt){.why = DSO_ELSEWHERE};
	} else {
		dso->build_id = file->build_id;
	}
}

/* Which build-id its files must have, and whether the file under its name can be used. */
static void decide_identity(struct dso *dso, const char *symfs)
{
	__attribute__((cleanup(named_file_close))) struct named_file file;
	struct file_build_id by_file = {.stamp = {0}};

	named_file_open(dso, symfs, &file);
	const struct file_build_id *recorded = find_by_file(dso->table, &dso->id.file, &by_file) ? &by_file : NULL;
	dso->copy_id = by_file.copy_id;
	if (!dso->build_id.len && recorded)
		dso->build_id = recorded->build_id;
	else if (!dso->build_id.len)
		find_by_path(dso, &file);
	if (file.fd >= 0)
		judge_named_file(dso, symfs, recorded, &file);
	dso->has_itself = file.fd >= 0 && !dso->doubt.why && file.is_mapped && has_own_files(dso, symfs);
	if (!dso->build_id.len && (file.fd < 0 || dso->doubt.why))
		identify_in_container(dso);
}

/* What is not found on this machine, if the user has asked for downloads. 0: *ret is open. */
static int download(const struct dso *dso, enum download_part part, struct elf_source *ret)
{
	AUTO_FREE char *path = dso->kind == DSO_VDSO || has_copy_alone(dso)
				       ? NULL
				       : downloads_get(dso->table->downloads, &dso->build_id, part, dso->short_name);

	return path ? elf_source_open(path, &dso->build_id, ret) : -ENOENT;
}

/*
 * As place_open(), but not a copy where the file itself is there: one of another file may be kept by the same build-id,
 * which patchelf(1) and fixed build-ids leave equal.
 */
static int place_open_or_itself(const struct dso *dso, const char *symfs, enum file_place place, struct elf_source *ret)
{
	const bool of_copies = place == PLACE_BUNDLE || place == PLACE_CACHE;
	struct elf_source itself;

	int err = place_open(dso, symfs, place, ret);
	if (err || !of_copies || !dso->has_itself || place_open(dso, symfs, PLACE_ITSELF, &itself))
		return err;
	elf_source_close(ret);
	*ret = itself;
	return 0;
}

/*
 * The first file with a full symbol table gives the symbols, the first with code gives PLT and segments, and the names
 * of a Go program without such a table. false: there was neither, or one of debug information only that does not say
 * where code is in the file that runs.
 */
static bool load_elf(struct dso *dso, const char *symfs)
{
	struct elf_source full = ELF_SOURCE_CLOSED, runtime = ELF_SOURCE_CLOSED;

	for (enum file_place place = 0; place <= PLACE_LAST && (!full.elf || !runtime.elf); place++) {
		struct elf_source source;
		if (place_open_or_itself(dso, symfs, place, &source))
			continue;
		if (!full.elf && source.symtab) {
			bool both = !runtime.elf && source.has_code;
			full = source;
			if (both && place_open_or_itself(dso, symfs, place, &runtime))
				runtime = (struct elf_source)ELF_SOURCE_CLOSED;
		} else if (!runtime.elf && source.has_code) {
			runtime = source;
		} else {
			elf_source_close(&source);
		}
	}
	if (!runtime.elf && !open_in_container(dso, &runtime) && !full.elf && runtime.symtab &&
	    open_in_container(dso, &full))
		full = (struct elf_source)ELF_SOURCE_CLOSED;
	if (!full.elf && download(dso, DOWNLOAD_DEBUG, &full))
		full = (struct elf_source)ELF_SOURCE_CLOSED;
	if (!runtime.elf && download(dso, DOWNLOAD_EXECUTABLE, &runtime))
		runtime = (struct elf_source)ELF_SOURCE_CLOSED;
	if (!full.elf && runtime.elf && elf_source_open_mini(&runtime, &full))
		full = (struct elf_source)ELF_SOURCE_CLOSED;
	if (!runtime.elf && !full.has_offsets)
		elf_source_close(&full);
	const struct elf_source *from = full.elf ? &full : &runtime;
	if (from->elf)
		elf_symbols_load(&dso->symbols, from, runtime.elf ? &runtime : from);
	bool found = from->elf;
	dso->source = full.elf ? DSO_ALL_SYMBOLS : found ? DSO_STRIPPED : DSO_NO_FILE;
	elf_source_close(&full);
	elf_source_close(&runtime);
	return found;
}

/* Without a build-id no file can be recognized as the right one, but a copy that the recorder kept, or by its inode. */
static bool is_lost(const struct dso *dso)
{
	return dso->only_copy && !dso->copy_id.len && !dso->in_container;
}

static void load_file(struct dso *dso, const char *symfs)
{
	decide_identity(dso, symfs);
	dso->only_copy = (dso->doubt.why || dso->in_container) && !dso->build_id.len;
	if (!is_lost(dso) && load_elf(dso, symfs))
		dso->doubt.why = DSO_TRUSTED; /* a copy was found elsewhere */
}

void dso_load(struct dso *dso, const char *symfs)
{
	if (dso->loaded)
		return;
	dso->loaded = true;
	switch (dso->kind) {
	case DSO_FILE: load_file(dso, symfs); break;
	case DSO_VDSO: load_elf(dso, symfs); break;
	case DSO_PERFMAP: load_perf_map(dso, symfs); break;
	default: break;
	}
}

/*
 * The descriptor out of a source that is not needed otherwise; of an image a file in memory with the same bytes.
 */
static int source_take_fd(struct elf_source *source)
{
	size_t len;
	const char *image = source->fd < 0 ? elf_rawfile(source->elf, &len) : NULL;
	int fd = source->fd;

	source->fd = -1;
	if (image) {
		fd = memfd_create("millrace-vdso", MFD_CLOEXEC);
		if (fd >= 0 && fd_write(fd, image, len)) {
			close(fd);
			fd = -1;
		}
	}
	elf_source_close(source);
	return fd;
}

bool dso_debug_path(const struct dso *dso, unsigned index, char **ret)
{
	static const enum file_place places[] = {PLACE_BUNDLE_DEBUG, PLACE_CACHE_DEBUG, PLACE_BUILD_ID,
						 PLACE_DEBUGINFOD_DEBUG};

	if (index >= sizeof(places) / sizeof(places[0]))
		return false;
	*ret = place_path(dso, "", places[index]);
	return true;
}

int dso_open(const struct dso *dso, const char *symfs, enum dso_part part)
{
	static const enum file_place runtime[] = {PLACE_BUNDLE, PLACE_ITSELF, PLACE_CACHE, PLACE_DEBUGINFOD};
	static const enum file_place debug[] = {PLACE_BUNDLE_DEBUG, PLACE_DEBUGLINK, PLACE_CACHE_DEBUG,
						PLACE_BUILD_ID,     PLACE_LIB_DEBUG, PLACE_DEBUGINFOD_DEBUG};
	const enum file_place *places = part == DSO_RUNTIME ? runtime : debug;
	size_t nr = part == DSO_RUNTIME ? sizeof(runtime) / sizeof(runtime[0]) : sizeof(debug) / sizeof(debug[0]);
	struct elf_source source;

	if (dso->kind == DSO_KERNEL)
		return dso->image_path && part == DSO_RUNTIME ? object_file_open(dso->image_path, NULL) : -ENOENT;
	if ((dso->kind != DSO_FILE && dso->kind != DSO_VDSO && dso->kind != DSO_MODULE) || is_lost(dso))
		return -ENOENT;
	for (size_t i = 0; i < nr; i++) {
		int fd = place_open(dso, symfs, places[i], &source) ? -1 : source_take_fd(&source);
		if (fd >= 0)
			return fd;
	}
	if (part == DSO_RUNTIME && !open_in_container(dso, &source))
		return source_take_fd(&source);
	enum download_part wanted = part == DSO_RUNTIME ? DOWNLOAD_EXECUTABLE : DOWNLOAD_DEBUG;
	return download(dso, wanted, &source) ? -ENOENT : source_take_fd(&source);
}
