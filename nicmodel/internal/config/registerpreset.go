package config

import "fmt"

// RegisterPreset makes a NIC known to Preset and Presets, and so to scenarios and
// tools, by its name. It panics if the name is empty or taken, or if c is not valid.
// Packages call it when they are initialised: it must not run concurrently with
// other calls.
func RegisterPreset(name string, c Config) {
	if _, taken := presets[name]; taken || name == "" {
		panic(fmt.Sprintf("nicmodel: preset name %q is empty or taken", name))
	}
	if err := c.Validate(); err != nil {
		panic(fmt.Sprintf("nicmodel: preset %q: %v", name, err))
	}
	presets[name] = func() Config { return c }
}
