"""What is good, odd or wrong about this machine for running models; each finding says what to do."""

from reconciler.doctor.examine import Patient, examine
from reconciler.doctor.finding import Finding, Level

__all__ = ["Finding", "Level", "Patient", "examine"]
