/* SPDX-License-Identifier: MIT */
/* The features that tell of the events: EVENT_DESC, GROUP_DESC. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "format/feature.h"

void feature_encode_event_desc(const struct event_desc *events, size_t nr_events, struct buf *out)
{
	buf_put_u32(out, (uint32_t)nr_events);
	buf_put_u32(out, LAYOUT_ATTR_BYTES);
	for (const struct event_desc *event = events; event < events + nr_events; event++) {
		struct perf_event_attr attr = event->attr;
		size_t known = sizeof(attr) < LAYOUT_ATTR_BYTES ? sizeof(attr) : LAYOUT_ATTR_BYTES;

		attr.size = LAYOUT_ATTR_BYTES;
		buf_put(out, &attr, known);
		buf_extend(out, LAYOUT_ATTR_BYTES - known);
		buf_put_u32(out, (uint32_t)event->nr_ids);
		feature_put_string(out, event->name ? event->name : "");
		buf_put(out, event->ids, event->nr_ids * sizeof(*event->ids));
	}
}

/* One event of the list; attr_bytes is the length of its attr as stored. */
static int event_desc_take(struct cursor *at, uint32_t attr_bytes, struct event_desc *ret)
{
	const void *attr = cursor_take(at, attr_bytes);
	uint32_t nr_ids = cursor_u32(at);
	const char *name = feature_take_string(at);
	uint64_t ids_bytes = (uint64_t)nr_ids * sizeof(*ret->ids);
	const void *ids = cursor_take(at, ids_bytes);

	if (at->bad)
		return -EBADMSG;
	*ret = (struct event_desc){.nr_ids = nr_ids};
	memcpy(&ret->attr, attr, attr_bytes < sizeof(ret->attr) ? attr_bytes : sizeof(ret->attr));
	ret->name = strdup(name);
	ret->ids = malloc(ids_bytes ? ids_bytes : 1);
	if (!ret->name || !ret->ids) {
		event_desc_fini(ret);
		return -ENOMEM;
	}
	memcpy(ret->ids, ids, ids_bytes);
	return 0;
}

static void event_descs_free(struct event_desc *events, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		event_desc_fini(&events[i]);
	free(events);
}

int feature_decode_event_desc(struct span payload, struct event_desc **ret, size_t *ret_nr)
{
	struct cursor at = cursor_over(payload);
	uint32_t nr = cursor_u32(&at);
	uint32_t attr_bytes = cursor_u32(&at);
	/* An entry is an attr, a count, and the length of a string: so many at most can be there. */
	uint64_t entry_bytes = (uint64_t)attr_bytes + 8;

	if (at.bad || attr_bytes < LAYOUT_ATTR_MIN_BYTES || nr > cursor_left(&at) / entry_bytes)
		return -EBADMSG;
	struct event_desc *events = calloc(nr ? nr : 1, sizeof(*events));
	if (!events)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr; i++) {
		int err = event_desc_take(&at, attr_bytes, &events[i]);
		if (err) {
			event_descs_free(events, i);
			return err;
		}
	}
	*ret = events;
	*ret_nr = nr;
	return 0;
}

void feature_encode_groups(const struct feature_group *groups, uint32_t nr, struct buf *out)
{
	buf_put_u32(out, nr);
	for (uint32_t i = 0; i < nr; i++) {
		feature_put_string(out, groups[i].name ? groups[i].name : "{anon_group}");
		buf_put_u32(out, groups[i].leader);
		buf_put_u32(out, groups[i].members);
	}
}

int feature_list_group(struct feature_list *list, struct feature_group *ret)
{
	struct feature_group group;

	if (!list->left)
		return 0;
	group.name = feature_take_string(&list->at);
	group.leader = cursor_u32(&list->at);
	group.members = cursor_u32(&list->at);
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = group;
	return 1;
}
