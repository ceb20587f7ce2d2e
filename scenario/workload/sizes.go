package workload

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// Distribution is a distribution of flow sizes, as published studies give them:
// points of a cumulative distribution, straight lines between them.
type Distribution struct {
	Name    string
	Summary string // one line
	Source  string // who measured it, and whose points these are
	points  []point
	whole   float64 // what the points count up to: 1 or 100
}

// point says that the given share of flows has at most size bytes.
type point struct{ size, share float64 }

// Distributions lists the built-in ones by name.
func Distributions() []Distribution { return slices.Clone(distributions) }

// lookupDistribution returns the built-in distribution of that name.
func lookupDistribution(name string) (Distribution, error) {
	for _, d := range distributions {
		if d.Name == name {
			return d, nil
		}
	}
	return Distribution{}, fmt.Errorf("no size distribution is called %q: take one of %s, or write one size such as 64KiB, or name a file of points such as sizes.cdf", name, distributionNames())
}

func distributionNames() string {
	var names []string
	for _, d := range distributions {
		names = append(names, d.Name)
	}
	return strings.Join(names, ", ")
}

// quantile returns the size that a share u, in [0, 1), of the flows does not
// reach: drawn with a uniform u, sizes have this distribution. It is at least one
// byte.
func (d Distribution) quantile(u float64) units.Bytes {
	u *= d.whole
	i, _ := slices.BinarySearchFunc(d.points, u, func(p point, u float64) int {
		if p.share > u {
			return 1
		}
		return -1
	})
	i = min(max(i, 1), len(d.points)-1)
	a, b := d.points[i-1], d.points[i]
	size := b.size
	if b.share > a.share {
		size = a.size + float64(float64((u-a.share)/(b.share-a.share))*(b.size-a.size))
	}
	return max(units.Bytes(math.Round(size)), 1)
}

// Mean returns the mean size in bytes, exactly that of the straight lines.
func (d Distribution) Mean() float64 {
	var sum float64
	for i := 1; i < len(d.points); i++ {
		a, b := d.points[i-1], d.points[i]
		sum += float64(float64((b.share-a.share)*(a.size+b.size)) / 2)
	}
	return sum / d.whole
}

// share returns the share of flows of at most size bytes.
func (d Distribution) share(size units.Bytes) float64 {
	s := float64(size)
	for i, b := range d.points {
		if s < b.size {
			if i == 0 {
				return 0
			}
			a := d.points[i-1]
			return float64(a.share+float64(float64((s-a.size)/(b.size-a.size))*(b.share-a.share))) / d.whole
		}
	}
	return 1
}

// Sizes is a key's choice of flow sizes: a distribution by name, by a file, or by points;
// one size; or a range of which all sizes are equally likely.
type Sizes struct {
	Name        string
	Least, Most units.Bytes   // without a name; equal for one size
	given       *Distribution // by a file, whose Name it is, or by points
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Sizes) UnmarshalText(b []byte) error {
	text := strings.TrimSpace(string(b))
	if text != "" && text[0] >= '0' && text[0] <= '9' || strings.HasPrefix(text, "-") {
		from, to, ranged := strings.Cut(text, "..")
		if !ranged {
			to = from
		}
		least, err := units.ParseBytes(from)
		if err != nil {
			return err
		}
		most, err := units.ParseBytes(to)
		if err != nil {
			return err
		}
		*s = Sizes{Least: least, Most: most}
		switch {
		case least <= 0:
			return fmt.Errorf("%q is no size of a flow: choose one above 0", text)
		case most < least:
			return fmt.Errorf("%q ends before it begins: write the smaller size first, such as 8KB..32KB", text)
		}
		return nil
	}
	_, err := lookupDistribution(text)
	*s = Sizes{Name: text}
	return err
}

// none reports whether nothing was chosen.
func (s Sizes) none() bool { return s.Name == "" && s.Most == 0 }

// MarshalText implements encoding.TextMarshaler.
func (s Sizes) MarshalText() ([]byte, error) {
	if s.Name != "" {
		return []byte(s.Name), nil
	}
	if s.Least == s.Most {
		return s.Least.MarshalText()
	}
	least, err := s.Least.MarshalText()
	if err != nil {
		return nil, err
	}
	most, err := s.Most.MarshalText()
	return slices.Concat(least, []byte(".."), most), err
}

func (s Sizes) distribution() Distribution {
	if s.given != nil {
		return *s.given
	}
	if d, err := lookupDistribution(s.Name); err == nil {
		return d
	}
	name, _ := s.MarshalText() // of sizes it has no error
	return Distribution{Name: string(name), points: []point{{float64(s.Least), 0}, {float64(s.Most), 1}}, whole: 1}
}

var distributions = []Distribution{
	{
		Name: "websearch", Summary: "web search cluster: half of the flows below 80 KB, most bytes in flows above 1 MB",
		Source: "Alizadeh et al., DCTCP, SIGCOMM 2010, figure 4; points as in the simulator of PowerTCP (NSDI 2022)",
		points: websearch, whole: 1,
	},
	{
		Name: "websearch-short", Summary: "the flows of websearch of up to 10 KB alone, 15 of 100",
		Source: "as websearch",
		points: websearch[:websearchShort+1], whole: websearch[websearchShort].share,
	},
	{
		Name: "hadoop", Summary: "Facebook Hadoop cluster: most flows below 1 KB, a tail up to 10 MB",
		Source: "Roy et al., SIGCOMM 2015, figure 6; points as in HPCC's traffic generator (FbHdp)",
		points: hadoop, whole: 100,
	},
	{
		Name: "datamining", Summary: "data-mining cluster: four flows of five below 10 KB, four bytes of five in flows above 100 MB",
		Source: "Greenberg et al., VL2, SIGCOMM 2009, figure 2; points as in the simulator of PowerTCP (NSDI 2022)",
		points: datamining, whole: 1,
	},
	{
		Name: "google-rpc", Summary: "RPCs of a Google data centre, 2008: half of them below 256 bytes",
		Source: "Google, as used by Homa (SIGCOMM 2018); points as in HPCC's traffic generator (GoogleRPC2008)",
		points: googleRPC, whole: 100,
	},
	{
		Name: "alistorage", Summary: "Alibaba block storage: seven flows of ten below 8 KB, up to 2 MB",
		Source: "HPCC (Li et al., SIGCOMM 2019); points as in its traffic generator (AliStorage2019)",
		points: aliStorage, whole: 100,
	},
}

var websearch = []point{
	{0, 0.0}, {2000, 0.0}, {2100, 0.02}, {2500, 0.05}, {6000, 0.1}, {10000, 0.15}, {20000, 0.2},
	{30000, 0.3}, {50000, 0.4}, {80000, 0.53}, {200000, 0.6}, {1000000, 0.7}, {2000000, 0.8},
	{5000000, 0.9}, {10000000, 0.97}, {30000000, 1},
}

// websearchShort is the point of websearch at 10 KB.
const websearchShort = 6

var hadoop = []point{
	{0, 0}, {100, 1}, {200, 2}, {300, 5}, {350, 15}, {400, 20}, {500, 30}, {600, 40}, {700, 50},
	{1000, 60}, {2000, 67}, {7000, 70}, {30000, 72}, {50000, 82}, {80000, 87}, {120000, 90},
	{300000, 95}, {1000000, 97.5}, {2000000, 99}, {10000000, 100},
}

var datamining = []point{
	{100, 0}, {180, 0.085}, {250, 0.14}, {560, 0.33}, {900, 0.47}, {1100, 0.55}, {1870, 0.65},
	{3160, 0.7}, {10000, 0.8}, {100001, 0.874}, {400000, 0.9}, {1850000, 0.95}, {10000000, 0.97},
	{30000000, 0.98}, {100000000, 0.99}, {250000000, 0.995}, {1000000000, 1},
}

var aliStorage = []point{
	{0, 0}, {4000, 22.93}, {8000, 69.21}, {16000, 80.61}, {32000, 90.47}, {64000, 93.53},
	{128000, 96.77}, {256000, 97.53}, {2000000, 100},
}
