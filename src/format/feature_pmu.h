/* SPDX-License-Identifier: MIT */
/*
 * feature_pmu: what the header tells of the PMUs: PMU_MAPPINGS, CPU_PMU_CAPS, PMU_CAPS, HYBRID_TOPOLOGY.
 * All are lists; encoded as the u32 count and then that many entries.
 */
#pragma once

#include <stdint.h>

#include "format/feature.h"

/* PMU_MAPPINGS: attr.type and name. */
struct feature_pmu {
	uint32_t type;
	const char *name;
};
void feature_put_pmu(const struct feature_pmu *pmu, struct buf *out);
int feature_list_pmu(struct feature_list *list, struct feature_pmu *ret);

/* CPU_PMU_CAPS: what the PMU "cpu" can. HYBRID_TOPOLOGY has the same layout: name of the PMU and its CPUs. */
struct feature_pair {
	const char *name, *value;
};
void feature_put_pair(const struct feature_pair *pair, struct buf *out);
int feature_list_pair(struct feature_list *list, struct feature_pair *ret);

/* PMU_CAPS: what the others can. An entry is encoded as a list of pairs, then the PMU's name as a string. */
struct feature_pmu_caps {
	struct feature_list pairs; /* checked already */
	const char *pmu;
};
int feature_list_pmu_caps(struct feature_list *list, struct feature_pmu_caps *ret);
