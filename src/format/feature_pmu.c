/* SPDX-License-Identifier: MIT */
#include "format/feature_pmu.h"

#include <errno.h>

#include "base/buf.h"

void feature_put_pmu(const struct feature_pmu *pmu, struct buf *out)
{
	buf_put_u32(out, pmu->type);
	feature_put_string(out, pmu->name);
}

int feature_list_pmu(struct feature_list *list, struct feature_pmu *ret)
{
	struct feature_pmu pmu;

	if (!list->left)
		return 0;
	pmu.type = cursor_u32(&list->at);
	pmu.name = feature_take_string(&list->at);
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = pmu;
	return 1;
}

void feature_put_pair(const struct feature_pair *pair, struct buf *out)
{
	feature_put_string(out, pair->name);
	feature_put_string(out, pair->value);
}

int feature_list_pair(struct feature_list *list, struct feature_pair *ret)
{
	struct feature_pair pair;

	if (!list->left)
		return 0;
	pair.name = feature_take_string(&list->at);
	pair.value = feature_take_string(&list->at);
	if (list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = pair;
	return 1;
}

int feature_list_pmu_caps(struct feature_list *list, struct feature_pmu_caps *ret)
{
	if (!list->left)
		return 0;

	uint32_t nr = cursor_u32(&list->at);
	struct feature_list pairs = {.left = nr, .at = list->at};
	struct feature_pmu_caps caps = {.pairs = pairs};
	int got;

	do {
		struct feature_pair pair;
		got = feature_list_pair(&pairs, &pair);
	} while (got > 0);
	list->at = pairs.at;
	caps.pmu = feature_take_string(&list->at);
	if (got < 0 || list->at.bad)
		return -EBADMSG;
	list->left--;
	*ret = caps;
	return 1;
}
