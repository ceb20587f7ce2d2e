package wiretag

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// scheme is that of the devices whose names take the options.
const scheme = "ibv:"

// Open opens a device as verbs.Open does. After a question mark, the name of a
// libibverbs device may have options of this package besides its own. Open then
// wraps the device, with the interface of its port 1:
//
//	ibv:rxe0?telemetry=poseidon
//	ibv:mlx5_0?telemetry=csig-wide&collect=probes&every=200us
//
// telemetry is the form of tags by its name (telemetry.DelayForm), tagtype their
// EtherType, base and step the scale of a form that has one; collect is a Mode, every
// Config.ProbeInterval, maxage Config.MaxAge, and sport Config.SourcePort. All but
// telemetry have defaults.
func Open(name string) (verbs.Device, error) {
	inner, cfg, wanted, err := ParseName(name)
	if err != nil {
		return nil, verbs.Errorf("open", name, verbs.ErrInvalid, "%v", err)
	}
	dev, err := verbs.Open(inner)
	if err != nil || !wanted {
		return dev, err
	}
	d, err := Wrap(dev, "", cfg)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return d, nil
}

// options are the options of the tags, without the provider's.
type options struct {
	Form    telemetry.DelayForm `yaml:"telemetry"`
	TagType uint16              `yaml:"tagtype" eg:"0x88b5"`
	Base    units.Time          `yaml:"base"`
	Step    units.Time          `yaml:"step"`
	Config  `yaml:",inline"`
}

var ofOptions = field.Of[options]("wiretag")

// ParseName takes the options that are this package's out of a device's name, and
// reports whether there are any. The names of other devices than libibverbs' stay as
// they are: their options of that name are their own.
func ParseName(name string) (inner string, cfg Config, wanted bool, err error) {
	if !strings.HasPrefix(name, scheme) {
		return name, Config{}, false, nil
	}
	return parse(name)
}

// ParseInterface takes the options out of the name of a network interface, such as
// eth0?telemetry=csig-wide.
func ParseInterface(name string) (netdev string, cfg Config, wanted bool, err error) {
	netdev, cfg, wanted, err = parse(name)
	if _, rest, more := strings.Cut(netdev, "?"); err == nil && more {
		return "", Config{}, false, fmt.Errorf("unknown option %s, expected %s", rest, strings.Join(ofOptions.Keys(), ", "))
	}
	return netdev, cfg, wanted, err
}

func parse(name string) (inner string, cfg Config, wanted bool, err error) {
	device, query, ok := strings.Cut(name, "?")
	if !ok {
		return name, Config{}, false, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", Config{}, false, fmt.Errorf("options %q: %w; write telemetry=poseidon", query, err)
	}
	said := url.Values{}
	for _, key := range ofOptions.Keys() {
		if v := values[key]; len(v) > 0 {
			said[key] = v
			delete(values, key)
		}
	}
	if len(said) == 0 {
		return name, Config{}, false, nil
	}
	if cfg, err = read(said); err != nil {
		return "", Config{}, false, err
	}
	if len(values) > 0 {
		device += "?" + values.Encode()
	}
	return device, cfg, true, nil
}

// read is the configuration that options say.
func read(said url.Values) (Config, error) {
	o := options{Config: DefaultConfig(0)}
	err := ofOptions.Parse(&o, said)
	requires := func(key string, match func(telemetry.Form) bool) error {
		return fmt.Errorf("option %s requires telemetry=%s", key, telemetry.FormNames(match))
	}
	o.Format = telemetry.DefaultDelayFormat(o.Form)
	for _, key := range slices.Sorted(maps.Keys(said)) {
		scales := key == "base" || key == "step"
		switch {
		case !said.Has("telemetry"):
			return Config{}, requires(key, telemetry.Form.IsDelay)
		case err != nil:
			return Config{}, err
		case scales && !o.Form.Scaled():
			return Config{}, requires(key, telemetry.Form.IsScaled)
		case key == "tagtype":
			o.Format.EtherType = o.TagType
		case key == "base":
			o.Format.Base = o.Base
		case key == "step":
			o.Format.Step = o.Step
		}
	}
	return o.Config, o.Validate()
}
