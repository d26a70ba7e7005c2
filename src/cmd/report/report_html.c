/* SPDX-License-Identifier: MIT */
/* report --html: table, tree, flame graph, when, losses and header as one page. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/diag.h"
#include "base/log.h"
#include "cmd/input/loss_data.h"
#include "cmd/report/report.h"
#include "cmd/report/report_page.h"
#include "cmd/text/header_text.h"
#include "read/session.h"

struct html {
	struct report_options *options;
	struct reading reading;
	struct report_page_times times;
	struct loss_data lost;
	struct hint_list hints;
	char *table, *losses, *header; /* heap; NULL: none */
};

static int counted(void *ctx, const struct session_record *record)
{
	struct html *html = ctx;
	const struct samples *samples = &html->reading.samples;

	return report_page_times_add(&html->times, samples, record, &samples->last);
}

/* What `print` writes, on the heap; NULL and *err: it failed. */
static char *text_of(struct html *html, int (*print)(struct html *html, FILE *to, struct diag *reterr), int *err,
		     struct diag *reterr)
{
	char *text = NULL;
	size_t len;
	FILE *to = text_stream_open(&text, &len);

	*err = to ? print(html, to, reterr) : diag_set(reterr, -ENOMEM, "out of memory");
	if (to && fclose(to) && !*err)
		*err = diag_set(reterr, -ENOMEM, "out of memory");
	if (*err) {
		free(text);
		text = NULL;
	}
	return text;
}

/* The tables as --json has them. */
static int print_table(struct html *html, FILE *to, struct diag *reterr)
{
	struct reading *reading = &html->reading;
	const struct report_tables tables = {html->options, reading->session, &reading->samples,
					     reading->losses.lost_samples, &html->hints};

	html->options->json = true;
	return report_tables_print(&tables, to, reterr);
}

static int print_header(struct html *html, FILE *to, struct diag *reterr)
{
	(void)reterr;
	header_print(to, html->reading.session, true);
	return 0;
}

/* Of a file that can be read again, in the order in which its records lie there. */
static int print_losses(struct html *html, FILE *to, struct diag *reterr)
{
	static const struct report_loss_options options = {0};
	struct session *session;
	struct diag diag = {0};

	(void)reterr;
	if (!session_info(html->reading.session)->can_reopen) {
		fputs("This recording came through a pipe: what it lost can be told of a file only.\n", to);
		return 0;
	}
	if (session_open(input_path(&html->options->input), SESSION_FORCE | SESSION_FILE_ORDER, &session, &diag)) {
		fprintf(to, "What it lost is not known: the file could not be read again: %s\n", diag.text);
		log_error("%s: the page does not say what was lost", diag.text);
		return 0;
	}
	report_loss_print(&options, session, to, &diag); /* what it could read is what there is */
	session_close(session);
	return 0;
}

static int write_page(struct html *html, struct diag *reterr)
{
	const struct report_page_input input = {
		.name = input_path(&html->options->input),
		.session = html->reading.session,
		.samples = &html->reading.samples,
		.times = &html->times,
		.lost = &html->lost,
		.lost_samples = html->reading.losses.lost_samples,
	};
	const struct page_text texts[] = {{"Losses", html->losses}, {"Header", html->header}};
	const struct report_page_options options = {
		.title = input.name,
		.output = html->options->html,
		.table = html->table,
		.texts = texts,
		.nr_texts = sizeof(texts) / sizeof(texts[0]),
	};

	return report_page_write(&input, 1, &options, reterr);
}

static int make_texts(struct html *html, struct diag *reterr)
{
	int err;

	html->table = text_of(html, print_table, &err, reterr);
	if (!err)
		html->header = text_of(html, print_header, &err, reterr);
	if (!err)
		html->losses = text_of(html, print_losses, &err, reterr);
	return err;
}

int report_html_run(struct report_options *options, struct session **session, struct diag *reterr)
{
	struct html html = {.options = options};
	struct samples_options samples = options->samples;

	samples.chains = true;
	html.reading = (struct reading){.session = take_ptr(*session), .counted = counted, .ctx = &html};
	int err = reading_run(&html.reading, &samples, &options->input.machine, reterr);
	int page_err = 0;
	if (err != -ENOMEM) { /* a page of what was read before an error, too */
		loss_data_read_again(html.reading.session, input_path(&options->input), &html.lost);
		page_err = make_texts(&html, err ? NULL : reterr);
		if (!page_err)
			page_err = write_page(&html, err ? NULL : reterr);
	}
	input_report_losses(&html.reading.losses);
	input_report_late(html.reading.session);
	hints_print(&html.hints);
	free(html.table);
	free(html.losses);
	free(html.header);
	hints_fini(&html.hints);
	loss_data_fini(&html.lost);
	report_page_times_fini(&html.times);
	reading_fini(&html.reading);
	return err ? err : page_err;
}
