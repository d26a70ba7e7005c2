/* SPDX-License-Identifier: MIT */
#include "cmd/script_crew.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "analyze/lookup.h"
#include "base/crew.h"
#include "cmd/input.h"
#include "cmd/output.h"

/*
 * A round: each piece of a run becomes a sheet of text, by whoever of the crew is free; meanwhile one of them writes the
 * sheets of the round before. Where a sample needs a change of the machine (a task or an object that is met for the first
 * time), its piece stops, and the caller makes the rest of that sheet when the round is over.
 */
enum { NR_SHEETS = 32, SHEETS_BYTES = 16 << 20 /* of a round, about */, SHEET_KEPT_BYTES = 1 << 20 };

/* Of so few samples a round is not worth its while. */
enum { FEW_SAMPLES = 512 };

struct sheet {
	struct output text;
	size_t nr_done; /* samples */
};

struct round {
	struct sheet sheets[NR_SHEETS];
	size_t nr;
};

struct script_crew {
	struct script_crew_options options;
	unsigned nr_hands;
	bool ready; /* the texts are there */
	struct sample_text **texts; /* of each hand; the first is the caller's own */
	struct round rounds[2];
	struct round *made, *making; /* made: to be written */
	size_t nr_pieces;            /* of a round at most */
	size_t nr_alone;             /* samples that come next and are not worth a round */
	/* Of a round: */
	const struct ahead *ahead;
	const struct ahead_piece *pieces;
};

int script_crew_new(const struct script_crew_options *options, struct sample_text *text, struct script_crew **ret)
{
	unsigned nr_hands = crew_useful();

	*ret = NULL;
	if (nr_hands < 2 || !sample_text_has_lines_apart(options->text))
		return 0;
	struct script_crew *crew = calloc(1, sizeof(*crew));
	if (!crew)
		return -ENOMEM;
	crew->options = *options;
	crew->made = &crew->rounds[0];
	crew->making = &crew->rounds[1];
	for (size_t i = 0; i < NR_SHEETS; i++)
		crew->made->sheets[i].text.fd = crew->making->sheets[i].text.fd = OUTPUT_MEMORY;
	crew->texts = calloc(nr_hands, sizeof(struct sample_text *));
	if (!crew->texts) {
		script_crew_free(crew);
		return -ENOMEM;
	}
	crew->texts[0] = text;
	crew->nr_hands = nr_hands;
	crew->nr_pieces = 2 * (size_t)crew->nr_hands;
	*ret = crew;
	return 0;
}

void script_crew_free(struct script_crew *crew)
{
	if (!crew)
		return;
	for (unsigned hand = 1; crew->texts && hand < crew->nr_hands; hand++)
		sample_text_free(crew->texts[hand]);
	free(crew->texts);
	for (size_t i = 0; i < NR_SHEETS; i++) {
		output_close(&crew->rounds[0].sheets[i].text);
		output_close(&crew->rounds[1].sheets[i].text);
	}
	free(crew);
}

unsigned script_crew_hands(const struct script_crew *crew)
{
	return crew ? crew->nr_hands : 1;
}

static void write_sheet(struct script_crew *crew, struct output *text)
{
	output_move(crew->options.out, text);
	if (text->room > SHEET_KEPT_BYTES)
		output_close(text);
}

void script_crew_flush(struct script_crew *crew)
{
	for (size_t i = 0; i < crew->made->nr; i++)
		write_sheet(crew, &crew->made->sheets[i].text);
	crew->made->nr = 0;
}

/* The line of one sample; false: by the caller, when nobody else looks at the machine. */
static bool make_line(struct script_crew *crew, struct sample_text *text, size_t piece, struct sheet *sheet)
{
	size_t before = sheet->text.len;
	struct session_record record;
	int got = ahead_decode(crew->ahead, &crew->pieces[piece], sheet->nr_done, &record);

	if (got > 0)
		got = sample_text_print(text, &record, &sheet->text, NULL);
	if (got >= 0 && !lookup_missed(sample_text_lookup(text)) && !sheet->text.err)
		return true;
	sheet->text.len = before;
	return false;
}

static void make_sheet(struct script_crew *crew, struct sample_text *text, size_t piece)
{
	/* On our own stack: what lies beside it in the round belongs to other threads meanwhile. */
	struct sheet sheet = {.text = crew->making->sheets[piece].text};

	lookup_fix(sample_text_lookup(text), true);
	while (sheet.nr_done < crew->pieces[piece].nr && make_line(crew, text, piece, &sheet))
		sheet.nr_done++;
	lookup_fix(sample_text_lookup(text), false);
	crew->making->sheets[piece] = sheet;
}

/* A part of a round: the first writes what was made before. */
static void do_part(void *of, unsigned hand, unsigned part)
{
	struct script_crew *crew = of;

	if (part)
		make_sheet(crew, crew->texts[hand], part - 1);
	else
		script_crew_flush(crew);
}

/* What its maker left of a sheet, by the caller: 1; 0: the machine is another one, what was made behind it is void. */
static int complete_sheet(struct script_crew *crew, struct ahead *ahead, size_t piece, struct diag *reterr)
{
	struct sheet *sheet = &crew->making->sheets[piece];
	struct sample_text *text = crew->texts[0];
	uint64_t epoch = lookup_epoch(sample_text_lookup(text));
	const struct session_record *record;
	int err = 0;

	for (; sheet->nr_done < crew->pieces[piece].nr && !err; sheet->nr_done++)
		if (ahead_decode_again(ahead, &crew->pieces[piece], sheet->nr_done, &record))
			err = sample_text_print(text, record, &sheet->text, reterr);
	return err ? err : lookup_epoch(sample_text_lookup(text)) == epoch;
}

/* As many pieces next time as their text is small. */
static void settle_size(struct script_crew *crew)
{
	size_t largest = 1;

	for (size_t i = 0; i < crew->making->nr; i++) {
		struct output *text = &crew->making->sheets[i].text;
		if (text->len > largest)
			largest = text->len;
	}
	size_t fit = SHEETS_BYTES / largest, more = crew->nr_pieces * 2;
	crew->nr_pieces = fit < crew->nr_hands ? crew->nr_hands : fit < more ? fit : more;
	if (crew->nr_pieces > NR_SHEETS)
		crew->nr_pieces = NR_SHEETS;
}

/* The pieces of a run, or its first ones: 1 or -errno. */
static int run_round(struct script_crew *crew, struct ahead *ahead, size_t nr_pieces, struct diag *reterr)
{
	size_t nr = nr_pieces < crew->nr_pieces ? nr_pieces : crew->nr_pieces;
	struct round *round = crew->making;
	int result = 1;

	crew->ahead = ahead;
	ahead_share(ahead, do_part, crew, 1 + (unsigned)nr);
	/* In the others it is blocked. */
	if (crew->options.out->err == -EPIPE)
		raise(SIGPIPE);
	for (round->nr = 0; round->nr < nr && result > 0; round->nr++)
		result = complete_sheet(crew, ahead, round->nr, reterr);
	ahead_run_end(ahead, round->nr);
	settle_size(crew);
	crew->making = crew->made;
	crew->made = round;
	return result < 0 ? result : 1;
}

/* The texts of the others, at the first run that is worth it. Who cannot have them does without: the caller will say why. */
static bool is_ready(struct script_crew *crew)
{
	const struct script_crew_options *options = &crew->options;
	int err = crew->ready ? 0 : sample_text_prepare(crew->texts[0]);

	for (unsigned hand = 1; hand < crew->nr_hands && !crew->ready && !err; hand++) {
		crew->texts[hand] = sample_text_new(options->text, options->session, options->machine);
		err = crew->texts[hand] ? sample_text_prepare(crew->texts[hand]) : -ENOMEM;
	}
	crew->ready = !err;
	if (err)
		crew->nr_alone = SIZE_MAX;
	return !err;
}

static size_t count_samples(const struct ahead_piece *pieces, size_t nr)
{
	size_t sum = 0;

	for (size_t i = 0; i < nr; i++)
		sum += pieces[i].nr;
	return sum;
}

int script_crew_print(struct script_crew *crew, struct input_records *records, struct diag *reterr)
{
	size_t nr = crew->nr_alone ? 0 : input_records_run(records, &crew->pieces);

	if (crew->nr_alone)
		crew->nr_alone--;
	if (!nr)
		return 0;
	size_t nr_samples = count_samples(crew->pieces, nr);
	if (nr_samples >= FEW_SAMPLES && is_ready(crew))
		return run_round(crew, records->ahead, nr, reterr);
	ahead_run_end(records->ahead, 0);
	if (!crew->nr_alone)
		crew->nr_alone = nr_samples - 1;
	return 0;
}
