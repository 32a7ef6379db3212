"""What people look at: figures and pages."""
