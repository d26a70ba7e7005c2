/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "config.h"
#include "export/formats.h"

const struct export_format *const export_formats[] = {
	&export_folded, &export_speedscope, &export_firefox,
#ifdef HAVE_PROTOBUF
	&export_pprof,  &export_perfetto,   &export_otlp,
#endif
#ifdef HAVE_SQLITE
	&export_sqlite,
#endif
	NULL,
};

const struct export_format *export_format_find(const char *name, struct diag *reterr)
{
	char names[128] = "";
	size_t len = 0;

	for (size_t i = 0; export_formats[i]; i++)
		if (strcmp(export_formats[i]->name, name) == 0)
			return export_formats[i];
	if (strcmp(name, "clickhouse") == 0) {
		diag_set(reterr, -EINVAL,
			 "clickhouse is a server, not a format: rows are sent with --to=clickhouse://HOST");
		return NULL;
	}
	for (size_t i = 0; export_formats[i] && len < sizeof(names); i++)
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i ? ", " : "",
					export_formats[i]->name);
	diag_set(reterr, -EINVAL, "there is no format \"%s\"; this build has %s", name, names);
	return NULL;
}

int export_open(const struct export_format *format, const struct export_profile *profile,
		const struct export_target *target, struct exporter **ret, struct diag *reterr)
{
	struct exporter *exporter = calloc(1, format->state_bytes);

	if (!exporter)
		return diag_set(reterr, -ENOMEM, "out of memory");
	exporter->format = format;
	exporter->profile = *profile;
	exporter->fd = target->fd;
	exporter->path = target->path;
	exporter->store = target->store;
	exporter->why = reterr;
	diag_set(reterr, 0, "%s", "");
	int err = format->open(exporter, reterr);
	if (err) {
		export_free(exporter);
		return err;
	}
	*ret = exporter;
	return 0;
}

const char *export_value_name(const struct export_profile *profile, size_t index)
{
	static const char *const times[] = {[EXPORT_CPU_NS] = "cpu", [EXPORT_OFF_CPU_NS] = "off_cpu"};
	const struct export_event *events = profile->events;
	bool taken = events[index].unit == EXPORT_COUNT;

	for (size_t i = 0; i < index; i++)
		taken |= events[i].unit == events[index].unit;
	return taken ? events[index].name : times[events[index].unit];
}

void export_count_name(const struct export_profile *profile, size_t index, struct buf *ret)
{
	if (index)
		buf_printf(ret, "%s_", export_value_name(profile, index));
	buf_put_text(ret, "samples");
}

int export_close(struct exporter *exporter, struct diag *reterr)
{
	return exporter->format->close(exporter, reterr);
}

void export_free(struct exporter *exporter)
{
	if (!exporter)
		return;
	exporter->format->free(exporter);
	free(exporter);
}
