/* SPDX-License-Identifier: MIT */
#include "analyze/symbols/file_builds.h"

#include <errno.h>

/* Of all entries with this file. There are two for an entry, so that none is looked for among others of its inode. */
struct file_build {
	struct file_id file; /* with this generation, also if that is 0; any_generation: with each */
	bool any_generation;
	bool several; /* different build-ids */
	struct elf_id build_id;
};

void file_builds_fini(struct file_builds *builds)
{
	hash_table_fini(&builds->by_file);
	pool_fini(&builds->pool);
	builds->filled = false;
}

static uint64_t file_hash(const struct file_id *file, bool any_generation)
{
	uint64_t hash = hash_mix((uint64_t)file->major << 32 | file->minor, file->inode);

	return any_generation ? hash : hash_mix(hash, file->generation);
}

static struct file_build *find(const struct file_builds *builds, const struct file_id *file, bool any_generation)
{
	struct hash_slot *slot = hash_table_find(&builds->by_file, file_hash(file, any_generation));

	for (; slot; slot = hash_table_next(&builds->by_file, slot)) {
		struct file_build *build = slot->item;
		if (build->any_generation == any_generation && build->file.major == file->major &&
		    build->file.minor == file->minor && build->file.inode == file->inode &&
		    (any_generation || build->file.generation == file->generation))
			return build;
	}
	return NULL;
}

static int add(struct file_builds *builds, const struct file_build_id *entry, bool any_generation)
{
	struct file_build *build = find(builds, &entry->file, any_generation);

	if (build) {
		build->several |= !elf_id_equal(&build->build_id, &entry->build_id);
		return 0;
	}
	build = pool_take(&builds->pool, sizeof(*build));
	if (!build)
		return -ENOMEM;
	*build =
		(struct file_build){.file = entry->file, .any_generation = any_generation, .build_id = entry->build_id};
	return hash_table_add(&builds->by_file, file_hash(&entry->file, any_generation), build);
}

int file_builds_fill(struct file_builds *builds, struct span payload)
{
	struct cursor at = cursor_over(payload);
	struct file_build_id entry;

	while (file_build_id_next(&at, &entry))
		if (add(builds, &entry, true) || add(builds, &entry, false))
			return -ENOMEM;
	builds->filled = true;
	return 0;
}

bool file_builds_find(const struct file_builds *builds, const struct file_id *file, struct elf_id *ret)
{
	const struct file_id without_generation = {file->major, file->minor, file->inode, 0};
	const struct file_build *build = find(builds, file, !file->generation), *other = NULL;

	/* An entry without a generation is of each. */
	if (file->generation)
		other = find(builds, &without_generation, false);
	if (!build) {
		build = other;
		other = NULL;
	}
	if (!build || build->several ||
	    (other && (other->several || !elf_id_equal(&build->build_id, &other->build_id))))
		return false;
	*ret = build->build_id;
	return true;
}
