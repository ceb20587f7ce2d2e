package ib

// StaticRate is the code of a path's static rate (enum ibv_rate of libibverbs; IBA 9.11.1
// and the rates of its successors). 0 is the port's own rate.
type StaticRate uint8

// staticRates are in Mbit/s, by code; 0 where there is none.
var staticRates = [...]int64{
	2: 2_500, 5: 5_000, 3: 10_000, 6: 20_000, 4: 30_000, 7: 40_000, 8: 60_000, 9: 80_000, 10: 120_000,
	11: 14_000, 12: 56_000, 13: 112_000, 14: 168_000, 15: 25_000, 16: 100_000, 17: 200_000, 18: 300_000,
	19: 28_000, 20: 50_000, 21: 400_000, 22: 600_000, 23: 800_000, 24: 1_200_000,
}

// BitsPerSecond returns the rate, 0 for the port's own and for codes that are none.
func (r StaticRate) BitsPerSecond() int64 {
	if int(r) >= len(staticRates) {
		return 0
	}
	return staticRates[r] * 1_000_000
}

// StaticRateAtMost returns the highest rate up to bps bits per second, 0 below the least,
// 2.5 Gbit/s.
func StaticRateAtMost(bps int64) StaticRate {
	var best StaticRate
	for code := range staticRates {
		if r := StaticRate(code); r.BitsPerSecond() <= bps && r.BitsPerSecond() > best.BitsPerSecond() {
			best = r
		}
	}
	return best
}

// StaticRateAtLeast returns the lowest rate from bps bits per second on, 0 above the
// highest, 1.2 Tbit/s.
func StaticRateAtLeast(bps int64) StaticRate {
	var best StaticRate
	for code := range staticRates {
		r := StaticRate(code)
		if v := r.BitsPerSecond(); v > 0 && v >= bps && (best == 0 || v < best.BitsPerSecond()) {
			best = r
		}
	}
	return best
}
