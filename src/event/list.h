/* SPDX-License-Identifier: MIT */
/* list: how event lists grow. Private to this room. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct diag;
struct event;
struct event_list;

enum { LIST_MAX_EVENTS = 1 << 14 };

/* An event that counts this, with what holds for events without modifiers. */
struct event list_new_event(uint32_t type, uint64_t config);

void event_fini(struct event *event);

/* Moves the event to the end of the list; *event is left empty when that worked. */
int list_add(struct event_list *list, struct event *event, struct diag *reterr);

/* Moves all events of `from` to the end of `list`, or none. */
int list_append(struct event_list *list, struct event_list *from, struct diag *reterr);

/* What terms and modifiers set, from the model to an event that counts something else. */
void list_copy_settings(struct event *event, const struct event *model);

/* Makes one group of the events from `first` to the end. Takes over the name (heap or NULL). */
void list_make_group(struct event_list *list, size_t first, char *name);
