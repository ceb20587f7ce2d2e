/*
 * Does to a calibrator what the test says on the standard input, and answers with what
 * each call returns.
 */
#include <stdio.h>

#include "sluice_core.h"

enum { BLOCK = 1 << 14 };

enum { ADD, TO_HOST, TO_NIC, STATUS, SET_BACK, START };

struct call {
	int64_t what, a, b, c;
};

struct answer {
	int64_t a, b;
};

int main(void)
{
	static struct sluice_calibration cal;
	static struct call calls[BLOCK];
	static struct answer answers[BLOCK];
	for (;;) {
		uint64_t n;
		if (fread(&n, sizeof n, 1, stdin) != 1)
			return 0;
		if (n > BLOCK || fread(calls, sizeof *calls, n, stdin) != n)
			return 1;
		for (uint64_t i = 0; i < n; i++) {
			const struct call *c = &calls[i];
			struct answer r = {0, 0};
			switch (c->what) {
			case ADD:
				r.a = sluice_calibration_add(&cal, (struct sluice_calibration_sample){c->a, (uint64_t)c->b, c->c});
				r.b = sluice_calibration_next_sample(&cal);
				break;
			case TO_HOST: {
				struct sluice_calibration_to_host_result got = sluice_calibration_to_host(&cal, (uint64_t)c->a);
				if (got.ok)
					r = (struct answer){got.value.host, got.value.bound};
				break;
			}
			case TO_NIC: {
				struct sluice_calibration_to_nic_result got = sluice_calibration_to_nic(&cal, c->a);
				if (got.ok)
					r = (struct answer){(int64_t)got.ticks, got.bound};
				break;
			}
			case STATUS: {
				struct sluice_calibration_status s = sluice_calibration_status(&cal, c->a);
				r.a = s.reason + 16 * (int64_t)s.generation + (s.samples << 40);
				r.b = s.bound ^ (int64_t)sluice_float64bits(s.drift_ppm) ^ (int64_t)sluice_float64bits(s.drift_bound_ppm) << 1;
				break;
			}
			case SET_BACK:
				sluice_calibration_set_back(&cal, c->a);
				break;
			case START: {
				struct sluice_calibration_config config = sluice_calibration_default_config(c->a, sluice_float64frombits((uint64_t)c->b));
				config.max_interval = c->c;
				cal = sluice_calibration_start(config);
				break;
			}
			default:
				return 1;
			}
			answers[i] = r;
		}
		fwrite(answers, sizeof *answers, n, stdout);
		fflush(stdout);
	}
}
