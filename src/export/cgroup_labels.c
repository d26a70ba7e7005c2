/* SPDX-License-Identifier: MIT */
#include "export/cgroup_labels.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { ID_DIGITS = 64, UID_DIGITS = 32 };

const char *const cgroup_label_names[NR_CGROUP_LABELS] = {
	[LABEL_UNIT] = "unit", [LABEL_CONTAINER] = "container", [LABEL_POD] = "pod"};

static bool ends_with(const char *text, size_t len, const char *end)
{
	size_t of_end = strlen(end);

	return len > of_end && memcmp(text + len - of_end, end, of_end) == 0;
}

static void set(char ret[128], const char *text, size_t len)
{
	snprintf(ret, 128, "%.*s", len < 127 ? (int)len : 127, text);
}

/* "…-<64 digits>.scope", "<64 digits>", "libpod-<64 digits>", also with ".service" or a suffix behind a colon. */
static bool take_container(const char *part, size_t len, struct cgroup_labels *ret)
{
	for (size_t at = 0, digits = 0; at <= len; at++) {
		if (at < len && isxdigit((unsigned char)part[at])) {
			digits++;
			continue;
		}
		/* libpod-conmon- is podman's own process. */
		if (digits == ID_DIGITS && !memmem(part, len, "conmon-", 7)) {
			set(ret->texts[LABEL_CONTAINER], part + at - ID_DIGITS, ID_DIGITS);
			return true;
		}
		digits = 0;
	}
	if (len > 12 && strncmp(part, "lxc.payload.", 12) == 0) {
		set(ret->texts[LABEL_CONTAINER], part + 12, len - 12);
		return true;
	}
	return false;
}

/* How many characters are a UID: "8-4-4-4-12" digits, or 32 of them for a static pod; '_' for '-'. 0: it is none. */
static size_t uid_chars(const char *text, size_t len)
{
	size_t digits = 0, nr = 0;

	for (; nr < len && (isxdigit((unsigned char)text[nr]) || text[nr] == '-' || text[nr] == '_'); nr++)
		digits += text[nr] != '-' && text[nr] != '_';
	return digits == UID_DIGITS && (nr == UID_DIGITS || nr == UID_DIGITS + 4) ? nr : 0;
}

/* "pod<uid>", or "kubepods-burstable-pod<uid>.slice". */
static void take_pod(const char *part, size_t len, struct cgroup_labels *ret)
{
	for (const char *pod = part; (pod = memmem(pod, len - (size_t)(pod - part), "pod", 3)); pod += 3) {
		const char *uid = pod + 3;
		size_t nr = pod == part || pod[-1] == '-' ? uid_chars(uid, len - (size_t)(uid - part)) : 0;
		if (!nr || (uid + nr != part + len && !ends_with(part, len, ".slice")))
			continue;
		set(ret->texts[LABEL_POD], uid, nr);
		for (char *at = ret->texts[LABEL_POD]; *at; at++)
			*at = *at == '_' ? '-' : *at;
	}
}

void cgroup_labels_of(const char *path, struct cgroup_labels *ret)
{
	*ret = (struct cgroup_labels){0};
	while (*path) {
		size_t len = strcspn(path, "/");
		/* The innermost of each; inside a container are units of its own. */
		if (!take_container(path, len, ret) &&
		    (ends_with(path, len, ".service") || ends_with(path, len, ".scope")))
			set(ret->texts[LABEL_UNIT], path, len);
		take_pod(path, len, ret);
		path += len + (path[len] == '/');
	}
}
