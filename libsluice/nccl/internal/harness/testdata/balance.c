/*
 * Runs balance.c over a model of paths, each a queue that is served at a rate, in simulated time:
 *
 *	balance delay|roundrobin PIECE OUTSTANDING RATE... [/ RATE...]...
 *
 * RATE is in bytes a microsecond, 0 for a path that serves nothing; OUTSTANDING bounds the bytes on all paths. Each
 * phase lasts 20 ms. For each phase it prints what each path served in its second half, in bytes a microsecond,
 * and the mean time of a piece in nanoseconds.
 */
#include "balance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PHASE = 20000000, TRIP = 5000 };

static struct {
	double rate, left[BALANCE_PIECES]; /* bytes that are to be served, oldest first */
	int64_t posted[BALANCE_PIECES];
	unsigned n;
	double served;
} paths[BALANCE_PATHS];

int main(int argc, char **argv)
{
	static struct balance b;
	enum balance_policy policy = strcmp(argv[1], "roundrobin") ? BALANCE_DELAY : BALANCE_ROUNDROBIN;
	uint64_t piece = strtoul(argv[2], NULL, 10), bound = strtoul(argv[3], NULL, 10), outstanding = 0;
	const int64_t step = 100;
	unsigned n = 0;
	int64_t now = 0;

	for (int i = 4; i < argc && strcmp(argv[i], "/"); i++)
		n++;
	balance_init(&b, policy, n, piece);
	for (int at = 4; at < argc; at += n + 1) {
		double times = 0;
		long count = 0;

		for (unsigned i = 0; i < n; i++)
			paths[i].rate = atof(argv[at + i]) / 1000;
		for (int64_t began = now; now < began + PHASE; now += step) {
			bool second = now >= began + PHASE / 2;

			for (unsigned i = 0; i < n; i++) {
				double budget = paths[i].rate * step;

				if (now == began + PHASE / 2)
					paths[i].served = 0;
				while (paths[i].n && budget > 0 && now - paths[i].posted[0] >= TRIP) {
					double take = fmin(budget, paths[i].left[0]);

					budget -= take;
					paths[i].left[0] -= take;
					paths[i].served += take;
					if (paths[i].left[0] > 0)
						break;
					if (second) {
						times += now - paths[i].posted[0];
						count++;
					}
					outstanding -= b.paths[i].pieces[b.paths[i].first].size;
					balance_completed(&b, i, now);
					paths[i].n--;
					memmove(paths[i].left, paths[i].left + 1, paths[i].n * sizeof *paths[i].left);
					memmove(paths[i].posted, paths[i].posted + 1, paths[i].n * sizeof *paths[i].posted);
				}
			}
			while (outstanding + piece <= bound) {
				int i = balance_choose(&b, piece, now);

				if (i < 0)
					break;
				balance_posted(&b, i, piece, now);
				paths[i].left[paths[i].n] = piece;
				paths[i].posted[paths[i].n++] = now;
				outstanding += piece;
			}
		}
		for (unsigned i = 0; i < n; i++)
			printf("%.1f ", paths[i].served / (PHASE / 2) * 1000);
		printf("%.0f\n", count ? times / count : 0);
	}
	return 0;
}
