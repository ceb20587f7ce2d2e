// Package config is what a NIC is made with: the parameters of its parts, what is wrong with them, and presets.
package config
