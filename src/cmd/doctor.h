/* SPDX-License-Identifier: MIT */
/* doctor: what millrace doctor found, one line each. Owned by the command. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum doctor_state { DOCTOR_YES, DOCTOR_NO, DOCTOR_NOTE };

struct finding {
	const char *group, *name;
	enum doctor_state state;
	char text[320]; /* no: why, and the one thing that would change it */
};

struct doctor {
	struct finding findings[64];
	size_t nr;
	const char *group; /* of what is added next */
};

void doctor_add(struct doctor *doctor, enum doctor_state state, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Events, call graphs and rings, by opening them. */
void doctor_look_at_events(struct doctor *doctor);

/* Sources, limits and what stands around us, by reading and trying them. */
void doctor_look_at_system(struct doctor *doctor);
