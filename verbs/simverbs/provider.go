package simverbs

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

func init() { verbs.Register("sim", &provider{labs: map[string]*lab{}}) }

// provider opens devices of named networks, which last as long as the process.
type provider struct {
	mu   sync.Mutex
	labs map[string]*lab
}

// lab is a star network, made by the first device that is opened on it.
type lab struct {
	options    string
	congestion CongestionFor
	world      *World
}

// labOptions are the settings in the query of a device's name.
type labOptions struct {
	hosts int
	rate  units.Rate
	delay units.Time
	nic   string
	seed  uint64
	// collects is the telemetry of the packets of all hosts.
	collects telemetry.Kind
}

// Open implements verbs.Provider: [NETWORK/]HOST[?hosts=&rate=&delay=&nic=&seed=&telemetry=].
func (p *provider) Open(name string) (verbs.Device, error) {
	path, query, _ := strings.Cut(name, "?")
	network, host, ok := strings.Cut(path, "/")
	if !ok {
		network, host = "lab", path
	}
	object := "sim:" + name
	bad := func(cause error, format string, args ...any) (verbs.Device, error) {
		return nil, verbs.Errorf("open", object, cause, format, args...)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.labs[network]
	if l == nil {
		o, err := parseOptions(query)
		if err != nil {
			return bad(verbs.ErrInvalid, "%v", err)
		}
		w, err := o.build(network)
		if err != nil {
			return bad(verbs.ErrInvalid, "%v", err)
		}
		l = &lab{options: query, congestion: o.congestion, world: w}
		p.labs[network] = l
	} else if query != "" && query != l.options {
		return bad(verbs.ErrInvalid, "the network %s exists already, made with the options %q: give the same, or none", network, l.options)
	}
	i, err := l.world.net.Topology().Host(host)
	if err != nil {
		return bad(verbs.ErrNoDevice, "%v", err)
	}
	if d := l.world.devices[i]; !d.closed {
		return d, nil
	}
	// Opened again after Close: the NIC is the same.
	d := l.world.AddDevice(l.world.devices[i].name, l.world.devices[i].nic, l.congestion)
	return d, nil
}

// Devices implements verbs.Provider: two hosts of the default network. Any
// network's hosts can be opened; naming one makes it.
func (p *provider) Devices() ([]string, error) {
	return []string{"sim:lab/h0", "sim:lab/h1"}, nil
}

func parseOptions(query string) (labOptions, error) {
	o := labOptions{hosts: 8, rate: 100 * units.Gbps, delay: 500 * units.Nanosecond, nic: "cx6dx", seed: 1}
	values, err := url.ParseQuery(query)
	if err != nil {
		return o, fmt.Errorf("the options %q can't be read: %w; write hosts=4&rate=25Gbps", query, err)
	}
	for key, v := range values {
		text := v[len(v)-1]
		var err error
		switch key {
		case "hosts":
			if o.hosts, err = strconv.Atoi(text); err == nil && (o.hosts < 2 || o.hosts > 4096) {
				err = fmt.Errorf("%d hosts: 2 to 4096", o.hosts)
			}
		case "rate":
			if err = o.rate.UnmarshalText([]byte(text)); err == nil && o.rate <= 0 {
				err = fmt.Errorf("a rate of %v: it must be positive", o.rate)
			}
		case "delay":
			if err = o.delay.UnmarshalText([]byte(text)); err == nil && (o.delay < 0 || o.delay > units.Second) {
				err = fmt.Errorf("a delay of %v: 0 to 1s", o.delay)
			}
		case "nic":
			o.nic = text
		case "seed":
			o.seed, err = strconv.ParseUint(text, 0, 64)
		case "telemetry":
			o.collects, err = parseTelemetry(text)
		default:
			err = fmt.Errorf("unknown option, expected hosts, rate, delay, nic, seed or telemetry")
		}
		if err != nil {
			return o, fmt.Errorf("option %s: %w", key, err)
		}
	}
	return o, nil
}

func parseTelemetry(text string) (telemetry.Kind, error) {
	for _, k := range []telemetry.Kind{telemetry.None, telemetry.MaxDelay, telemetry.PerHop} {
		if text == k.String() {
			return k, nil
		}
	}
	return 0, fmt.Errorf("%q: take %v, %v or %v", text, telemetry.None, telemetry.MaxDelay, telemetry.PerHop)
}

// congestion returns each queue pair's congestion control; it is a CongestionFor.
func (o *labOptions) congestion(int) (nicmodel.Congestion, int, error) {
	return nicmodel.Congestion{Telemetry: o.collects}, 0, nil
}

// build makes a lossless star of hosts h0, h1, ... around one switch.
func (o *labOptions) build(network string) (*World, error) {
	preset, err := nicmodel.Preset(o.nic)
	if err != nil {
		return nil, err
	}
	cfg := fabric.Default()
	for i := range cfg.Switch.Classes {
		cfg.Switch.Classes[i].PFC.Lossless = true
	}
	e := des.New()
	net, err := fabric.New(e, fabric.Star(o.hosts, fabric.Link{Rate: o.rate, Delay: o.delay}), cfg, o.seed)
	if err != nil {
		return nil, err
	}
	w := NewWorld(e, net)
	w.ForApplications()
	frames := nicmodel.NewFrames(net)
	for host := range o.hosts {
		nic, err := nicmodel.New(e, net, frames, host, o.rate, preset)
		if err != nil {
			return nil, err
		}
		w.AddDevice(fmt.Sprintf("sim:%s/%s", network, net.Topology().HostName(host)), nic, o.congestion)
	}
	return w, nil
}
