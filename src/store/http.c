/* SPDX-License-Identifier: MIT */
#include "store/http.h"

#define CURL_DISABLE_TYPECHECK /* macros that would call the functions by their names */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/fd.h"
#include "sysinfo/library.h"

#define NS_PER_S UINT64_C(1000000000)

enum {
	DEFAULT_TRIES = 6,
	CONNECT_S = 5,
	DEFAULT_IDLE_S = 60,
	MOST_ANSWER = 1 << 16,
	MOST_CREDENTIALS = 4096,
	FIRST_PAUSE_MS = 200,
	LONGEST_PAUSE_MS = 5000,
};

/* The functions of libcurl.so.4, which is loaded for them: some thirty libraries more would slow each other command. */
static struct {
	__typeof__(curl_easy_init) *easy_init;
	__typeof__(curl_easy_setopt) *easy_setopt;
	__typeof__(curl_easy_perform) *easy_perform;
	__typeof__(curl_easy_getinfo) *easy_getinfo;
	__typeof__(curl_easy_strerror) *easy_strerror;
	__typeof__(curl_easy_escape) *easy_escape;
	__typeof__(curl_easy_cleanup) *easy_cleanup;
	__typeof__(curl_free) *free;
	__typeof__(curl_slist_append) *slist_append;
	__typeof__(curl_slist_free_all) *slist_free_all;
} library;

/* false: it is not installed. */
static bool load_library(void)
{
	static const struct library_function functions[] = {
		LIBRARY_FUNCTION(curl_easy_init, &library.easy_init),
		LIBRARY_FUNCTION(curl_easy_setopt, &library.easy_setopt),
		LIBRARY_FUNCTION(curl_easy_perform, &library.easy_perform),
		LIBRARY_FUNCTION(curl_easy_getinfo, &library.easy_getinfo),
		LIBRARY_FUNCTION(curl_easy_strerror, &library.easy_strerror),
		LIBRARY_FUNCTION(curl_easy_escape, &library.easy_escape),
		LIBRARY_FUNCTION(curl_easy_cleanup, &library.easy_cleanup),
		LIBRARY_FUNCTION(curl_free, &library.free),
		LIBRARY_FUNCTION(curl_slist_append, &library.slist_append),
		LIBRARY_FUNCTION(curl_slist_free_all, &library.slist_free_all),
	};

	return library_load("libcurl.so.4", functions, sizeof(functions) / sizeof(functions[0]));
}

struct http {
	struct http_options options;
	CURL *curl;
	/* of the post that is made */
	struct buf *answer;
	const struct http_receiver *receiver;
	struct diag *reterr;
	bool has_given; /* bytes to the receiver */
	int receiver_err;
	char user[MOST_CREDENTIALS + 1], password[MOST_CREDENTIALS + 1]; /* as long as the file */
	char why[CURL_ERROR_SIZE];
};

static int bad_file(const char *path, int err, struct diag *reterr)
{
	return diag_set(reterr, err, "%s: %s", path, strerror(-err));
}

static void take_line(struct http *http, const char *line)
{
	if (strncmp(line, "user=", 5) == 0)
		snprintf(http->user, sizeof(http->user), "%s", line + 5);
	if (strncmp(line, "password=", 9) == 0)
		snprintf(http->password, sizeof(http->password), "%s", line + 9);
}

/* Never from the command line, which others can see; for the same reason the file must be the owner's alone. */
static int read_credentials(struct http *http, const char *path, struct diag *reterr)
{
	AUTO_BUF struct buf text = {0};
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return bad_file(path, -errno, reterr);
	if (!S_ISREG(st.st_mode))
		return diag_set(reterr, -EPERM, "%s: is no regular file", path);
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return diag_set(reterr, -EPERM, "%s: others may read these credentials: chmod 600", path);
	int err = fd_slurp_rest(fd, MOST_CREDENTIALS, &text);
	if (err)
		return bad_file(path, err, reterr);
	char *rest = NULL, *all = (char *)(uintptr_t)buf_text(&text);
	for (char *line = strtok_r(all, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest))
		take_line(http, line);
	return *http->user ? 0 : diag_set(reterr, -ENOKEY, "%s: has no line user=NAME", path);
}

static bool is_success(long status)
{
	return status >= 200 && status <= 299;
}

static size_t take_answer(char *bytes, size_t size, size_t nr, void *ctx)
{
	struct http *http = ctx;
	size_t len = size * nr, room = http->answer->len < MOST_ANSWER ? MOST_ANSWER - http->answer->len : 0;
	long status = 0;

	library.easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &status);
	if (http->receiver && is_success(status)) {
		http->has_given = true;
		http->receiver_err = http->receiver->take(http->receiver->ctx, (struct span){bytes, len}, http->reterr);
		return http->receiver_err ? CURL_WRITEFUNC_ERROR : len;
	}
	buf_put(http->answer, bytes, len < room ? len : room);
	return len;
}

int http_open(const struct http_options *options, struct http **ret, struct diag *reterr)
{
	int err = 0;

	if (!load_library())
		return diag_set(reterr, -ENOTSUP, "sending needs libcurl.so.4, which %s (Debian: libcurl4)",
				library_problem());
	struct http *http = calloc(1, sizeof(*http));
	if (!http)
		return diag_set(reterr, -ENOMEM, "out of memory");
	http->options = *options;
	if (!options->tries)
		http->options.tries = DEFAULT_TRIES;
	if (!options->idle_s)
		http->options.idle_s = DEFAULT_IDLE_S;
	if (options->credentials)
		err = read_credentials(http, options->credentials, reterr);
	http->curl = err ? NULL : library.easy_init();
	if (!err && !http->curl)
		err = diag_set(reterr, -ENOMEM, "out of memory");
	if (err) {
		http_close(http);
		return err;
	}
	CURL *curl = http->curl;
	library.easy_setopt(curl, CURLOPT_ERRORBUFFER, http->why);
	library.easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	library.easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	library.easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	library.easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	library.easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)http->options.idle_s);
	library.easy_setopt(curl, CURLOPT_USERAGENT, "millrace");
	library.easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_answer);
	if (*http->user) {
		library.easy_setopt(curl, CURLOPT_USERNAME, http->user);
		library.easy_setopt(curl, CURLOPT_PASSWORD, http->password);
	}
	if (options->ca)
		library.easy_setopt(curl, CURLOPT_CAINFO, options->ca);
	*ret = http;
	return 0;
}

void http_close(struct http *http)
{
	if (!http)
		return;
	library.easy_cleanup(http->curl);
	explicit_bzero(http->password, sizeof(http->password));
	free(http);
}

char *http_escape(struct http *http, const char *text)
{
	char *escaped = library.easy_escape(http->curl, text, 0);
	char *copy = escaped ? strdup(escaped) : NULL;

	library.free(escaped);
	return copy;
}

/* What may be otherwise in a moment; a wrong certificate is not, nor a server that was silent for long. */
static bool is_transient(CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_PARTIAL_FILE: return true;
	default: return false;
	}
}

static int status_error(long status)
{
	switch (status) {
	case 400:
	case 413:
	case 415:
	case 422: return -EINVAL;
	case 408:
	case 429: return -EAGAIN;
	default: return status >= 500 ? -EAGAIN : -EPROTO;
	}
}

/* The first line of what a server says about an error. */
static int bad_status(struct http *http, long status, struct buf *answer, struct diag *reterr)
{
	const char *text = buf_text(answer);
	int len = (int)strcspn(text, "\r\n");

	return diag_set(reterr, status_error(status), "%s: HTTP %ld%s%.*s", http->options.url, status, len ? ": " : "",
			len < 300 ? len : 300, text);
}

static struct curl_slist *add_header(struct curl_slist *list, const char *name, const char *value)
{
	char line[128];

	if (value)
		snprintf(line, sizeof(line), "%s: %s", name, value);
	else
		snprintf(line, sizeof(line), "%s:", name); /* libcurl leaves it out */
	struct curl_slist *longer = library.slist_append(list, line);
	return longer ? longer : list;
}

/* No "Expect: 100-continue": servers that do not know it cost a second. */
static struct curl_slist *headers_of(const struct http_post *post)
{
	struct curl_slist *list = add_header(NULL, "Expect", NULL);

	if (post->gzip)
		list = add_header(list, "Content-Encoding", "gzip");
	return post->type ? add_header(list, "Content-Type", post->type) : list;
}

/* "... after 7 ms: ..." without the number: two failures of one reason have one text, and the agent tells it once. */
static void remove_duration(char *why)
{
	static const char word[] = " after ";
	unsigned long duration;
	int end = 0;

	for (char *at = why; (at = strstr(at, word)); at++)
		if (sscanf(at + strlen(word), "%lu m%n", &duration, &end) == 1 && end) {
			char *rest = at + strlen(word) + end;
			rest += strspn(rest, "abcdefghijklmnopqrstuvwxyz");
			memmove(at, rest, strlen(rest) + 1);
			return;
		}
}

int http_post(struct http *http, const struct http_post *post, struct buf *answer, struct diag *reterr)
{
	AUTO_FREE char *url = NULL;
	long status = 0;

	if (asprintf(&url, post->query ? "%s?%s" : "%s", http->options.url, post->query) < 0) {
		url = NULL;
		return diag_set(reterr, -ENOMEM, "out of memory");
	}
	http->answer = answer;
	http->receiver = post->receiver;
	http->reterr = reterr;
	http->has_given = false;
	http->receiver_err = 0;
	answer->len = 0;
	*http->why = '\0';
	struct curl_slist *headers = headers_of(post);
	library.easy_setopt(http->curl, CURLOPT_URL, url);
	library.easy_setopt(http->curl, CURLOPT_POST, 1L);
	library.easy_setopt(http->curl, CURLOPT_POSTFIELDS, post->body.len ? post->body.ptr : "");
	library.easy_setopt(http->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->body.len);
	library.easy_setopt(http->curl, CURLOPT_HTTPHEADER, headers);
	library.easy_setopt(http->curl, CURLOPT_WRITEDATA, http);
	uint64_t since_ns = clock_ns(CLOCK_MONOTONIC);
	CURLcode code = library.easy_perform(http->curl);
	bool was_idle = clock_ns(CLOCK_MONOTONIC) - since_ns >= http->options.idle_s * NS_PER_S;
	library.easy_setopt(http->curl, CURLOPT_HTTPHEADER, NULL);
	library.slist_free_all(headers);
	if (http->receiver_err)
		return http->receiver_err;
	remove_duration(http->why);
	if (code != CURLE_OK)
		return diag_set(reterr,
				http->has_given || (code == CURLE_OPERATION_TIMEDOUT && was_idle) ? -EIO
				: is_transient(code)                                              ? -EAGAIN
												  : -EPROTO,
				"%s: %s", http->options.url, *http->why ? http->why : library.easy_strerror(code));
	library.easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &status);
	return is_success(status) ? buf_status(answer) : bad_status(http, status, answer, reterr);
}

bool http_wait(const struct http *http, unsigned nr)
{
	unsigned pause_ms = FIRST_PAUSE_MS << (nr < 6 ? nr - 1 : 5);

	if (nr >= http->options.tries)
		return false;
	pause_ms = pause_ms < LONGEST_PAUSE_MS ? pause_ms : LONGEST_PAUSE_MS;
	struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000L};
	nanosleep(&pause, NULL);
	return true;
}
