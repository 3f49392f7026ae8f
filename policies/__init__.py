"""A policy pack for Valkey on Kubernetes. Stands alone: teams may take this folder to programs of their own."""
