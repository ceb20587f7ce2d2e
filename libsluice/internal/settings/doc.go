// Package settings says how queue pairs of C programs are paced: the options of
// sluice.h, and the environment and file that configure libsluice-preload.so.
package settings
