/* SPDX-License-Identifier: MIT */
#include "record/hit_build_ids.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "format/build_id.h"
#include "record/elf_note.h"
#include "record/hit_world.h"

/* "[ext4]" or "/lib/modules/6.1/kernel/fs/ext4/ext4.ko.xz" -> "ext4". */
static void module_name(const char *name, char ret[64])
{
	const char *slash = strrchr(name, '/');
	size_t len = 0;

	for (name = slash ? slash + 1 : name + (*name == '['); *name && !strchr(".]", *name) && len < 63;
	     name++)
		ret[len++] = *name == '-' ? '_' : *name;
	ret[len] = '\0';
}

/* The mapped file, rather than what has its name now; of a container that still runs, as it sees it. */
static int file_build_id(const struct hit_object *object, uint8_t ret[ELF_NOTE_BUILD_ID_MAX])
{
	AUTO_FREE char *inside = NULL;
	int len = elf_note_of_file(object->name, object->ino, ret);

	if (len > 0 || !object->ino)
		return len;
	if (asprintf(&inside, "/proc/%d/root%s", object->pid, object->name) < 0) {
		inside = NULL;
		return -ENOMEM;
	}
	len = elf_note_of_file(inside, object->ino, ret);
	/* some file systems give stat(2) another inode than the maps */
	return len > 0 ? len : elf_note_of_file(object->name, 0, ret);
}

static int object_build_id(const struct hit_object *object, struct build_id *ret)
{
	static const char kernel[] = "[kernel.kallsyms]";
	char module[64];

	*ret = (struct build_id){.misc = PERF_RECORD_MISC_USER, .pid = -1, .path = object->name};
	if (object->kernel) {
		ret->misc = PERF_RECORD_MISC_KERNEL;
		if (!strncmp(object->name, kernel, sizeof(kernel) - 1)) {
			ret->path = kernel;
			return elf_note_of_kernel(ret->id);
		}
		module_name(object->name, module);
		return elf_note_of_module(module, ret->id);
	}
	if (!strcmp(object->name, "[vdso]"))
		return elf_note_of_vdso(ret->id);
	return object->name[0] == '/' ? file_build_id(object, ret->id) : -ENOENT;
}

/* Two files may have had the same name, and are one line when they have the same id. */
static bool told_before(const struct hit_world *world, size_t nr)
{
	const struct hit_object *object = &world->objects[nr];

	for (size_t i = 0; i < nr; i++) {
		const struct hit_object *other = &world->objects[i];
		if (other->name_hash == object->name_hash && other->id_bytes == object->id_bytes &&
		    !memcmp(other->id, object->id, object->id_bytes) && !strcmp(other->name, object->name))
			return true;
	}
	return false;
}

int hit_build_ids_put(struct hit_world *world, struct buf *out)
{
	for (size_t i = 0; i < world->nr_objects; i++) {
		struct hit_object *object = &world->objects[i];
		bool vdso = !object->kernel && !strcmp(object->name, "[vdso]");
		struct build_id id;
		int len = object->hit || vdso ? object_build_id(object, &id) : 0;

		if (len <= 0)
			continue;
		object->id_bytes = id.id_bytes = (uint8_t)len;
		memcpy(object->id, id.id, sizeof(object->id));
		int err = told_before(world, i) ? 0 : build_id_encode(&id, 0, out);
		if (err == -ENOMEM)
			return err;
	}
	return 0;
}
