package ib

import "testing"

func TestStaticRates(t *testing.T) {
	for _, c := range []struct {
		bps             int64
		most, least     StaticRate
		atMost, atLeast int64
	}{
		{1, 0, 2, 0, 2.5e9},
		{2.5e9, 2, 2, 2.5e9, 2.5e9},
		{11.3e9, 3, 11, 10e9, 14e9},
		{25e9, 15, 15, 25e9, 25e9},
		{26e9, 15, 19, 25e9, 28e9},
		{90e9, 9, 16, 80e9, 100e9},
		{1200e9, 24, 24, 1200e9, 1200e9},
		{1201e9, 24, 0, 1200e9, 0},
	} {
		most, least := StaticRateAtMost(c.bps), StaticRateAtLeast(c.bps)
		if most != c.most || least != c.least || most.BitsPerSecond() != c.atMost || least.BitsPerSecond() != c.atLeast {
			t.Errorf("%d bit/s: %d and %d, want %d and %d", c.bps, most, least, c.most, c.least)
		}
	}
	for _, none := range []StaticRate{0, 1, 25, 255} {
		if none.BitsPerSecond() != 0 {
			t.Errorf("code %d is %d bit/s", none, none.BitsPerSecond())
		}
	}
}
