/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/agent/agent.h"

static const char *wanted; /* scandir(3) has no context; one thread */

static int is_wanted(const struct dirent *entry)
{
	const char *name = entry->d_name, *at = wanted;

	for (; *at; at++, name++)
		if (*at == '0' ? !isdigit((uint8_t)*name) : *at == 'x' ? !isxdigit((uint8_t)*name) : *name != *at)
			return 0;
	return 1;
}

size_t keep_files(const char *directory, const char *names, uint64_t bytes, uint64_t ns)
{
	struct dirent **entries = NULL;
	uint64_t now = clock_ns(CLOCK_REALTIME), all = 0;
	size_t nr_removed = 0;

	wanted = names;
	int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int nr = dir < 0 ? 0 : scandirat(dir, ".", &entries, is_wanted, alphasort);
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < nr; i++) {
			struct stat st;
			if (fstatat(dir, entries[i]->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
				continue;
			uint64_t at = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
			bool old = ns && now > at && now - at > ns;
			if (pass == 0) {
				all += (uint64_t)st.st_size;
			} else if ((old || (bytes && all > bytes)) && !unlinkat(dir, entries[i]->d_name, 0)) {
				all -= (uint64_t)st.st_size;
				nr_removed++;
			}
		}
	}
	for (int i = 0; i < nr; i++)
		free(entries[i]);
	free(entries);
	if (dir >= 0)
		close(dir);
	return nr_removed;
}
