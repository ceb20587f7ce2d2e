package settings

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/sluice-rdma/sluice/units"
)

// Environment is what configures libsluice-preload.so.
type Environment struct {
	Settings Settings
	Devices  []string // patterns of Matches; none for all
	Debug    bool     // log to standard error
	Stats    bool     // statistics to standard error at exit
}

// DefaultCC is the engine where neither cc nor rate is set: a program under the
// preload library is steered unless something else is asked for.
const DefaultCC = "timely"

// file is the keys of a configuration file. Those of the environment are the same
// in capitals after SLUICE_.
type file struct {
	CC             *string        `yaml:"cc"`
	CCConfig       map[string]any `yaml:"cc_config"`
	Rate           units.Rate     `yaml:"rate"`
	Segment        units.Bytes    `yaml:"segment"`
	Batch          int            `yaml:"batch"`
	MaxOutstanding units.Bytes    `yaml:"max_outstanding"`
	LineRate       units.Rate     `yaml:"line_rate"`
	BaseRTT        units.Time     `yaml:"base_rtt"`
	NICRate        units.Rate     `yaml:"nic_rate"`
	CalibrateEvery units.Time     `yaml:"calibrate_every"`
	ProgressThread bool           `yaml:"progress_thread"`
	Devices        []string       `yaml:"devices"`
	Debug          bool           `yaml:"debug"`
	Stats          bool           `yaml:"stats"`
}

// elsewhere are names that start with SLUICE_ and belong to others: the preload
// library's C part, Sluice's tests and its tools.
var elsewhere = []string{"SLUICE_CONFIG", "SLUICE_DISABLE", "SLUICE_LIBRARY"}

// FromEnvironment reads the variables of environ, strings as those of
// os.Environ, and the file that SLUICE_CONFIG names, by read. The environment
// wins over the file. An error names the variable or the file.
func FromEnvironment(environ []string, read func(name string) ([]byte, error)) (Environment, error) {
	vars := map[string]string{}
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok && strings.HasPrefix(name, "SLUICE_") {
			vars[name] = value
		}
	}
	var f file
	if name := vars["SLUICE_CONFIG"]; name != "" {
		text, err := read(name)
		if err != nil {
			return Environment{}, fmt.Errorf("SLUICE_CONFIG: %w", err)
		}
		if err := decode(text, &f); err != nil {
			return Environment{}, fmt.Errorf("%s (SLUICE_CONFIG): %w", name, err)
		}
	}
	t := reflect.TypeFor[file]()
	for i := range t.NumField() {
		key := t.Field(i).Tag.Get("yaml")
		name := "SLUICE_" + strings.ToUpper(key)
		value, ok := vars[name]
		if !ok || slices.Contains(elsewhere, name) {
			continue
		}
		if err := setVariable(&f, key, value); err != nil {
			return Environment{}, fmt.Errorf("%s=%s: %w", name, value, err)
		}
	}
	return f.environment()
}

// setVariable sets one key from the text of a variable. What a variable must not
// do is bring other keys along, in further lines.
func setVariable(f *file, key, value string) error {
	switch key {
	case "cc":
		f.CC = &value
		return nil
	case "devices":
		f.Devices = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
		return nil
	case "cc_config":
		f.CCConfig = nil
		return decode([]byte("cc_config: {"+value+"}"), f)
	}
	switch key {
	case "debug", "stats", "progress_thread":
		b, err := strconv.ParseBool(value)
		if err != nil {
			return errors.New("expected 1 or 0")
		}
		value = strconv.FormatBool(b)
	}
	if strings.ContainsAny(value, "\n\r") {
		return fmt.Errorf("it has more than one line")
	}
	if value == "" {
		return fmt.Errorf("it is empty: unset it, or give a value")
	}
	return decode([]byte(key+": "+value), f)
}

func decode(text []byte, f *file) error {
	if err := yaml.UnmarshalWithOptions(text, f, yaml.Strict()); err != nil {
		return fmt.Errorf("%s", oneLine(err))
	}
	return nil
}

func (f *file) environment() (Environment, error) {
	e := Environment{Devices: f.Devices, Debug: f.Debug, Stats: f.Stats}
	for _, p := range f.Devices {
		if _, err := path.Match(p, ""); err != nil {
			return e, fmt.Errorf("devices: pattern %q: %w", p, err)
		}
	}
	s := Settings{
		Rate: f.Rate, Segment: f.Segment, Batch: f.Batch, MaxOutstanding: f.MaxOutstanding,
		LineRate: f.LineRate, BaseRTT: f.BaseRTT, NICRate: f.NICRate, CalibrateEvery: f.CalibrateEvery,
		ProgressThread: f.ProgressThread,
	}
	switch {
	case f.CC != nil:
		s.CC = *f.CC
	case f.Rate == 0:
		s.CC = DefaultCC
	}
	if len(f.CCConfig) > 0 {
		text, err := yaml.Marshal(f.CCConfig)
		if err != nil {
			return e, fmt.Errorf("cc_config: %w", err)
		}
		s.CCConfig = string(text)
	}
	e.Settings = s
	_, err := s.Config()
	return e, err
}
